"""`vehicled codegen`: a mechanism as source code that needs nothing of ours, a car as a mechanism."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vehicled.symbolic.library import Library

HELP = (
    "Write residual, tangent, sensor models and time step of a mechanism or a car as C or Python that people can "
    "read, with names, shapes and units; or a car as a mechanism's file."
)

EPILOG = """\
examples:
  vehicled codegen four_bar --language c                          four_bar.h and four_bar.c, in this folder
  vehicled codegen my_mechanism.yaml --language python --output generated
  vehicled codegen prototype --language c                         the car of a configuration
  vehicled codegen prototype --language yaml                      the same car as a mechanism's file:
                                                                  prototype_mechanism.yaml

C is C99 and needs math.h; Python needs NumPy. An operation is one addition, subtraction, multiplication, division,
negation, comparison or function call."""

_LANGUAGES = ("c", "python", "yaml")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled codegen`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument(
        "mechanism", metavar="MECHANISM", help="YAML file of a mechanism or a car, or a shipped one's name"
    )
    parser.add_argument("--language", choices=_LANGUAGES, required=True, help="of what is written")
    parser.add_argument(
        "--output", metavar="FOLDER", type=Path, default=Path(), help="made if missing; by default this one"
    )
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def run(args: argparse.Namespace) -> int:
    """Write the files; returns the exit status. Raises UsageError, MechanismError."""
    from vehicled.terminal.output_files import check_folder

    check_folder("--output", args.output)
    if args.language == "yaml":
        return _write_car(args)
    from vehicled.symbolic import c_library, python_library

    library = _make_library(args.mechanism)
    write = c_library.write if args.language == "c" else python_library.write
    found = _summarise(library, args.language, _write_files(args, write(library)))
    print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(_lines(found)))
    return 0


def _write_car(args: argparse.Namespace) -> int:
    from vehicled.configuration import load_configuration
    from vehicled.errors import UsageError
    from vehicled.multibody.files import is_mechanism
    from vehicled.multibody.writing import write_description
    from vehicled.vehicle.car import Car
    from vehicled.vehicle.mechanism import describe_car

    if is_mechanism(args.mechanism):
        raise UsageError("--language yaml: expected the configuration of a car, got a mechanism")
    text = write_description(describe_car(Car(load_configuration(args.mechanism).vehicle)))
    name = f"{Path(args.mechanism).stem}_mechanism"
    sizes = _write_files(args, {f"{name}.yaml": text})
    found = {"mechanism": name, "language": "yaml", "files": sizes, "bytes": sum(sizes.values())}
    print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(_size_lines(sizes)))
    return 0


def _write_files(args: argparse.Namespace, texts: dict[str, str]) -> dict[str, int]:
    """Write texts by name into the folder; returns sizes by path.

    Raises UsageError, without writing, if a file exists.
    """
    from vehicled.errors import UsageError
    from vehicled.terminal.output_files import OutputFile, check_outputs, write_output

    args.output.mkdir(parents=True, exist_ok=True)
    paths = {args.output / name: text.encode() for name, text in texts.items()}
    check_outputs([OutputFile("", path) for path in paths], {"mechanism": [args.mechanism]})
    for path in paths:
        # The user has not given this name, so the file may be another one, or may have been edited.
        if path.exists() and not args.force:
            raise UsageError(f"{path}: exists; --force replaces it")
    for path, content in paths.items():
        write_output(path, content)
    return {str(path): len(content) for path, content in paths.items()}


def _make_library(name_or_path: str) -> Library:
    from vehicled.multibody import library as mechanisms
    from vehicled.multibody.files import is_mechanism

    if is_mechanism(name_or_path):
        return mechanisms.make_library(name_or_path)
    import numpy as np

    from vehicled.configuration import load_configuration
    from vehicled.symbolic.text import library_name
    from vehicled.vehicle import library as cars

    configuration = load_configuration(name_or_path)
    gnss, imu = configuration.sensors.gnss, configuration.sensors.imu
    places = {} if gnss is None else {"antenna": np.array(gnss.antenna)}
    if imu is not None:
        places |= {"imu": np.array(imu.position), "R_imu_vehicle": imu.R_imu_vehicle}
    return cars.make_library(library_name(Path(name_or_path).stem), configuration.vehicle, places)


def _summarise(library: Library, language: str, sizes: dict[str, int]) -> dict[str, Any]:
    functions = {kernel.name: kernel.operations() for kernel in library.kernels()}
    return {
        "mechanism": library.name,
        "language": language,
        "files": sizes,
        "bytes": sum(sizes.values()),
        "operations": sum(sum(kinds.values()) for kinds in functions.values()),
        "functions": {name: sum(kinds.values()) for name, kinds in functions.items()},
    }


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [f"{name:<28} {count:>8} operations" for name, count in found["functions"].items()]
    lines.append(f"{'in all':<28} {found['operations']:>8} operations")
    return lines + _size_lines(found["files"])


def _size_lines(sizes: dict[str, int]) -> list[str]:
    return [f"{path}: {size} bytes" for path, size in sizes.items()]
