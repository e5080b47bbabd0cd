"""Called by mkdocs for each page of the site."""
import os.path

# mkdocs-material's offline search would load this from the network.
SHIM = "https://unpkg.com/iframe-worker/shim"
OURS = "docs/assets/worker.js"


def on_post_page(output, page, config):
    return with_our_worker(output, os.path.dirname(page.url))


def on_post_template(output_content, template_name, config):
    return with_our_worker(output_content, "")


def with_our_worker(output, folder):
    return output.replace(SHIM, os.path.relpath(OURS, folder or "."))
