"""Builds the wheel: maturin's, with the program `towpath` as a script in it."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import maturin

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent
SCRIPT = HERE / "towpath.data" / "scripts" / "towpath"

get_requires_for_build_wheel = maturin.get_requires_for_build_wheel


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """The metadata of PEP 517; maturin wants the folder of the script to be there."""
    SCRIPT.parent.mkdir(parents=True, exist_ok=True)
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """The wheel of PEP 517."""
    SCRIPT.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_program(), SCRIPT)
    SCRIPT.chmod(SCRIPT.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def _program() -> Path:
    """The program that is given, or one that is built."""
    given = os.environ.get("TOWPATH_PROGRAM")
    if given:
        return Path(given)
    cargo = ["cargo", "build", "--locked", "--release", "--package", "towpath-cli"]
    subprocess.run([*cargo, "--features", "parquet"], cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    return ROOT / target / "release" / "towpath"
