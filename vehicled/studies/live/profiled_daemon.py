"""`vehicled run` with a profiled estimator: a process that `vehicled bench live` starts.

python -m vehicled.studies.live.profiled_daemon PARTS.json CONFIGURATION.yaml
"""

import json
import logging
import sys
from pathlib import Path

from vehicled.daemon.configuration import load_daemon_configuration
from vehicled.daemon.daemon import Daemon
from vehicled.daemon.log import Logging
from vehicled.estimator import Estimator
from vehicled.foxglove.scene import Scene
from vehicled.studies.live.parts import ProfiledEstimator


def main(parts: Path, path: Path) -> None:
    """Run the daemon until a signal; then write `ProfiledEstimator.summaries_us` to the file `parts`."""
    configuration = load_daemon_configuration(path)
    estimator = ProfiledEstimator(Estimator(configuration))
    with Logging(logging.INFO):
        Daemon(
            configuration.daemon,
            estimator,
            configuration.text,
            read_noise=configuration.noise_arguments,
            scene=Scene(configuration.vehicle),
        ).run()
    parts.write_text(json.dumps(estimator.summaries_us()))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
