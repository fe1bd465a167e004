"""The stored study of the tests of the store, for those of what is exported from it."""

from __future__ import annotations

from tests.store.conftest import clock as clock
from tests.store.conftest import definition as definition
from tests.store.conftest import entered_database as entered_database
from tests.store.conftest import entered_file as entered_file
from tests.store.conftest import location as location
from tests.store.conftest import make_queue as make_queue
from tests.store.conftest import open_optuna as open_optuna
from tests.store.conftest import sql as sql
from tests.store.conftest import start_child as start_child
from tests.store.conftest import store as store
from tests.store.conftest import study as study
