"""Run the notebooks at full size and keep their outputs: `python scripts/notebooks.py`, or with names, as in `01 04`.

A notebook runs in a temporary folder with a copy of `configs/`, so that nothing of this checkout or machine gets into
its outputs. Its metadata has the digest of the cells that made the outputs: a test refuses cells that changed since.

    python scripts/notebooks.py 05 --out tried --set QUICK=true --set RUN=/path/to/a/run

runs a notebook with other parameters in a folder, and writes it there.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat
import yaml
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

ROOT = Path(__file__).parents[1]
METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
SECONDS = 7200
"""The limit of one cell."""


def chosen(names: Sequence[str]) -> list[Path]:
    """Return the notebooks whose names begin with one of `names`, or all of them; refuse a name that none has."""
    paths = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
    for name in names:
        if not any(path.name.startswith(name) for path in paths):
            message = f"there is no notebook {name!r}; there are {', '.join(path.stem for path in paths)}"
            raise ValueError(message)
    return [path for path in paths if not names or path.name.startswith(tuple(names))]


def check_parameters(path: Path, parameters: Mapping[str, Any]) -> None:
    """Refuse parameters that the notebook does not have."""
    notebook = nbformat.read(path, as_version=4)
    nodes = ast.walk(ast.parse(notebook.cells[parameters_place(notebook)].source))
    known = [each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
    for name in parameters:
        if name not in known:
            message = f"{path.stem} has no parameter {name!r}; it has {', '.join(known)}"
            raise ValueError(message)


def parameters_place(notebook: NotebookNode) -> int:
    """Return the index of the cell tagged `parameters`."""
    [place] = [place for place, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", ())]
    return place


def executed(path: Path, folder: Path, parameters: Mapping[str, Any]) -> NotebookNode:
    """Run a notebook in `folder/notebooks`, beside a copy of the configs; a cell that raises ends it with that error.

    The parameters replace those of the cell tagged `parameters`, by a cell after it that is removed again.
    """
    shutil.copytree(ROOT / "configs", folder / "configs", dirs_exist_ok=True)
    (folder / "notebooks").mkdir(exist_ok=True)
    notebook = nbformat.read(path, as_version=4)
    place = parameters_place(notebook)
    lines = [f"{name} = {value!r}" for name, value in parameters.items()]
    notebook.cells.insert(place + 1, nbformat.v4.new_code_cell("\n".join(lines)))
    # Without folders, the kernel is that of this Python, whatever kernels the user has.
    manager = AsyncKernelManager(kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=SECONDS,
        record_timing=False,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(folder / "notebooks")}},
    )
    client.execute()
    del notebook.cells[place + 1]
    return notebook


def keep(path: Path, notebook: NotebookNode) -> None:
    """Write a notebook with its outputs, without notices on standard error and without metadata of this machine."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in notebook.cells:
        cell.metadata = {"tags": cell.metadata["tags"]} if "tags" in cell.metadata else {}
    for count, cell in enumerate(code, 1):
        cell.execution_count = count
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = count
    sources = hashlib.sha256(json.dumps([cell.source for cell in code]).encode()).hexdigest()
    notebook.metadata = {**METADATA, "millstream": {"sources": sources}}
    nbformat.write(notebook, path)


def main(paths: Sequence[Path], out: Path | None, parameters: Mapping[str, Any]) -> None:
    for path in paths:
        if out is not None:
            target, notebook = out / path.name, executed(path, out, parameters)
        else:
            with tempfile.TemporaryDirectory(prefix="millstream-notebooks-") as folder:
                target, notebook = path, executed(path, Path(folder), parameters)
        keep(target, notebook)
        print(f"{target.name}: {target.stat().st_size / 1000:,.0f} KB")


def setting(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE; the value is YAML."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        message = f"{text!r} is not NAME=VALUE; write --set QUICK=true"
        raise argparse.ArgumentTypeError(message)
    try:
        return name, yaml.safe_load(value)
    except yaml.YAMLError as error:
        message = f"the value of {name} is not YAML: {' '.join(str(error).split())}; quotes make text of it"
        raise argparse.ArgumentTypeError(message) from error


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="the beginning of a name; all notebooks without one")
    parser.add_argument("--out", type=Path, help="an existing folder to run in and to write to")
    parser.add_argument("--set", type=setting, action="append", default=[], metavar="NAME=VALUE", help="a parameter")
    given = parser.parse_args()
    if given.set and given.out is None:
        parser.error("--set needs --out: the outputs that are kept are those of the default parameters")
    try:
        selected = chosen(given.names)
        for each in selected:
            check_parameters(each, dict(given.set))
    except ValueError as error:
        parser.error(str(error))
    try:
        main(selected, given.out, dict(given.set))
    except CellExecutionError as error:
        sys.exit(str(error))
