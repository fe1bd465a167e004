"""Packages the studies of the top folder inside the package; the rest is in setup.cfg."""

from __future__ import annotations

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithStudies(build_py):
    """Copies ``studies/*.toml`` to where an installed package looks for them.

    No link does it: a checkout without symbolic links, or a zip archive, has a text file instead.
    An editable install needs no copy: the package looks beside itself too.
    """

    def run(self) -> None:
        """Build the package, then copy."""
        super().run()
        if not self.editable_mode:
            folder = str(Path(self.build_lib, "fastrcaps_search", "studies"))
            self.mkpath(folder)
            for path in Path("studies").glob("*.toml"):
                self.copy_file(str(path), folder)


setup(cmdclass={"build_py": BuildWithStudies})
