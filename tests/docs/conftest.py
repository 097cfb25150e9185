import pytest
from cli.forked import Starter


@pytest.fixture(scope="session")
def starter():
    made = Starter()
    yield made
    made.close()
