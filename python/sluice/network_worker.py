"""Blocks of a Network that are Python processes: each imports the factories of
the layers and policies, as multiprocessing's spawned processes import their
function."""
import multiprocessing
import multiprocessing.spawn
import pathlib
import pickle
import sys
import tempfile
from typing import Any

from sluice.errors import SluiceError

_is_preparing = False


class Command:
    """How workers are started: `arguments`, of a file that lives until
    close()."""

    def __init__(self, factories: list[Any], policies: list[Any],
                 replica_policies: list[Any], example: Any) -> None:
        said = multiprocessing.spawn.get_preparation_data("sluice worker")
        said.pop("authkey")  # which can't be pickled, and isn't needed
        try:
            layers = pickle.dumps(
                (factories, policies, replica_policies, example))
        except Exception as error:  # pickle raises what it likes
            raise SluiceError(
                "engine=\"processes\": workers are Python processes that "
                "import the factories of layers and policies, and can't: give "
                "functions and classes of a module, functools.partial of them, "
                f"or nn.Modules ({error})") from error
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-")
        file = pathlib.Path(self._folder.name) / "layers.pickle"
        file.write_bytes(pickle.dumps((said, layers)))
        self.arguments = [
            sys.executable, "-c",
            f"import sys; sys.path[:] = {sys.path!r}; "
            "from sluice.network_worker import main; sys.exit(main())",
            str(file)]

    def close(self) -> None:
        self._folder.cleanup()


def refuse_in_worker() -> None:
    """The script of the main program is imported in workers too."""
    if _is_preparing:
        raise SluiceError(
            "this script makes a Network while a worker imports it: put that "
            "under `if __name__ == \"__main__\":`", status=2)


def layers_of(file: str) -> tuple[list[Any], list[Any], list[Any], Any]:
    """The factories, the policies, those of replicas and the example in that
    file; imports what they need."""
    global _is_preparing
    said, layers = pickle.loads(pathlib.Path(file).read_bytes())
    _is_preparing = True
    try:
        multiprocessing.spawn.prepare(said)
        return pickle.loads(layers)
    except SluiceError:
        raise
    except Exception as error:
        raise SluiceError(
            "a worker can't import the factories of layers and policies "
            f"({error}): in a notebook, put them into a module, a file that is "
            "imported",
            status=2) from error
    finally:
        _is_preparing = False


def main() -> int:
    """A worker, from its start to its end."""
    try:
        from sluice.extension import native
        from sluice.factories import layer_functions
        from sluice import replicas
        from sluice.policies import functions
        factories, policies, replica_policies, example = layers_of(sys.argv[1])
        return native().work({
            "layers": layer_functions(factories),
            "policies": functions(policies),
            "replica_policies": replicas.functions(replica_policies),
            "example": example,
            "cuts": [], "boundaries": [], "optimizer": "", "settings": "",
            "overrides": [], "folder": "", "overwrite": False, "resume": False,
            "worker": []})
    except SluiceError as error:
        print(f"sluice: {error}", file=sys.stderr)
        return error.status or 1
