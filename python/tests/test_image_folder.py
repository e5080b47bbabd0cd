"""Folders of images, read by the rules of torchvision's ImageFolder and by
Sluice: docs/howto/image-folders.md has the differences, and why.

torchvision itself isn't imported: it wants the torch that it was built with.
The rules are those of its documented source (torchvision/datasets/folder.py):
find_classes(), make_dataset(), IMG_EXTENSIONS and pil_loader().
"""
import os
import subprocess

import pytest

from sluice.program import call

Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif",
                  ".tiff", ".webp")
ORIENTATION = 0x0112


def image_folder(folder):
    """ImageFolder(folder).samples: path below the folder, and label."""
    classes = sorted(entry.name for entry in os.scandir(folder)
                     if entry.is_dir())
    samples = []
    for label, name in enumerate(classes):
        found = 0
        for root, _, files in sorted(os.walk(folder / name, followlinks=True)):
            for file in sorted(files):
                if file.lower().endswith(IMG_EXTENSIONS):
                    path = os.path.join(root, file)
                    samples.append((os.path.relpath(path, folder), label))
                    found += 1
        if not found:
            raise FileNotFoundError(f"no valid file for the class {name}")
    return samples


CONFIG = """
engine = "virtual"
turns = 4
batch_size = 2
[data]
name = "image_folder"
size = 8
folder = "{folder}"
"""


def config_of(folder):
    path = folder.parent / "images.toml"
    path.write_text(CONFIG.format(folder=folder))
    return path


def lines_of(folder, *overrides):
    """What `sluice data check --list` says."""
    return call("data", "check", "--list", config_of(folder),
                *overrides).splitlines()


def samples_in(lines, folder):
    """The same list of the split `train`, and of each the size and tag."""
    samples, looks = [], {}
    for line in lines:
        if not line.startswith("train "):
            continue
        _, label, _, size, tag, path = line.split(" ", 5)
        path = os.path.relpath(path, folder / "train")
        samples.append((path, int(label)))
        looks[path] = (size, int(tag))
    return samples, looks


def sluice_folder(folder):
    return samples_in(lines_of(folder), folder)


def write(path, size=(4, 6), orientation=None, color=(9, 99, 200)):
    path.parent.mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    if orientation:
        exif[ORIENTATION] = orientation
    Image.new("RGB", size, color).save(path, exif=exif)


@pytest.fixture
def folder(tmp_path):
    """Two classes; in train a file that lies deeper."""
    for name in ("train/ant/b.png", "train/ant/deep/a.jpg", "train/cat/c.PNG",
                 "train/cat/d.jpeg", "test/ant/e.png", "test/cat/f.png"):
        path = tmp_path / "set" / name
        write(path.with_suffix(path.suffix.lower()))
        path.with_suffix(path.suffix.lower()).rename(path)
    return tmp_path / "set"


def test_plain_folders_have_the_same_classes_labels_and_files(folder):
    rival = image_folder(folder / "train")
    own, _ = sluice_folder(folder)
    assert sorted(own) == sorted(rival)
    assert len(own) == 4


def hidden_class(train):
    write(train / ".ipynb_checkpoints/b-checkpoint.png")


def hidden_in_class(train):
    write(train / "ant/.ipynb_checkpoints/b-checkpoint.png")


def resource_fork(train):
    (train / "ant/._b.png").write_bytes(b"\0\5\x16\7\0\2\0\0Mac OS X")


def thumbnails(train):
    write(train / "cat/@eaDir/c.jpg")


def ring(train):
    (train / "ant/again").symlink_to(".")


def broken_link(train):
    (train / "ant/gone.png").symlink_to("nowhere.png")


# Oddity, files beside the four that ImageFolder has, why Sluice has none.
ODDITIES = [
    (hidden_class, "a class of its own, and labels of others move by one"),
    (hidden_in_class, "a copy of an image, perhaps of one that was removed"),
    (resource_fork, "no image: ends an epoch"),
    (thumbnails, "a small copy of each image"),
    (ring, "each image forty times"),
    (broken_link, "no file: ends an epoch"),
]


@pytest.mark.parametrize("oddity", [row[0] for row in ODDITIES],
                         ids=lambda make: make.__name__)
def test_what_is_no_image_of_the_user_is_left_out_and_counted(folder, oddity):
    plain = image_folder(folder / "train")
    oddity(folder / "train")
    lines = lines_of(folder)
    own, _ = samples_in(lines, folder)
    assert sorted(own) == sorted(plain)
    assert len(image_folder(folder / "train")) > len(own)
    assert any("left out: " in line for line in lines)


def test_images_of_kinds_that_are_not_read_are_counted(folder):
    for ending in ("webp", "bmp", "tif", "ppm", "gif"):
        write(folder / "train" / "ant" / f"x.{ending}")
    lines = lines_of(folder)
    own, _ = samples_in(lines, folder)
    assert len(own) == 4
    assert len(image_folder(folder / "train")) == 4 + 4, "all but gif"
    assert any("left out: 1 .bmp, 1 .gif, 1 .ppm, 1 .tif, 1 .webp" in line
               for line in lines)


def test_links_to_folders_are_followed_by_both(folder):
    write(folder.parent / "elsewhere/more/x.png")
    (folder / "train/ant/linked").symlink_to(folder.parent / "elsewhere")
    (folder / "train/bee").symlink_to(folder.parent / "elsewhere/more")
    write(folder / "test/bee/g.png")
    own, _ = sluice_folder(folder)
    assert sorted(own) == sorted(image_folder(folder / "train"))
    assert len(own) == 6


def test_tags_of_orientation_are_followed_as_exif_transpose_does(folder):
    """ImageFolder's loader ignores them."""
    upright = {}
    for tag in range(1, 9):
        for kind in ("png", "jpg"):
            path = folder / f"train/ant/{tag}.{kind}"
            write(path, size=(5, 3), orientation=tag)
            image = Image.open(path)
            width, height = ImageOps.exif_transpose(image).size
            assert (image.size == (width, height)) == (tag < 5)
            upright[f"ant/{tag}.{kind}"] = (f"{height}x{width}", tag)
    _, looks = sluice_folder(folder)
    assert {path: looks[path] for path in upright} == upright


def test_a_class_that_the_test_lacks_moves_no_label(folder):
    """ImageFolder numbers the classes of each folder anew."""
    write(folder / "train/bee/x.png")
    labels = dict(image_folder(folder / "test"))
    assert labels["cat/f.png"] == 1
    lines = [line for line in lines_of(folder) if line.startswith("test ")]
    assert [line.split()[1] for line in lines] == ["0", "2"]


def test_a_damaged_image_is_named_before_anything_is_trained(folder):
    path = folder / "test/cat/f.png"
    path.write_bytes(path.read_bytes()[:60])
    config = str(config_of(folder))
    run = folder.parent / "run"
    program = os.environ.get("SLUICE_PROGRAM", "sluice")
    for command in (["data", "check"], ["run", "--dir", str(run)]):
        done = subprocess.run([program, *command, config], text=True,
                              capture_output=True, check=False)
        assert done.returncode == 2
        assert "test/cat/f.png: is a damaged PNG" in done.stdout + done.stderr
        assert not run.exists()
    done = subprocess.run([program, "run", "--dir", str(run), config,
                           "data.on_bad=skip"], text=True, capture_output=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert "left out as damaged: 1 image (f.png)" in done.stdout
