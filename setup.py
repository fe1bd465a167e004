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
            for source, target in self._studies().items():
                self.mkpath(str(Path(target).parent))
                self.copy_file(source, target)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """All files that a build makes."""
        return [*super().get_outputs(include_bytecode), *self._studies().values()]

    def _studies(self) -> dict[str, str]:
        folder = Path(self.build_lib, "fastrcaps_search", "studies")
        return {str(path): str(folder / path.name) for path in Path("studies").glob("*.toml")}


setup(cmdclass={"build_py": BuildWithStudies})
