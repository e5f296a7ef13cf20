"""The rows of the campaign."""

from vehicled.studies.faults.device_rows import DEVICE_ROWS
from vehicled.studies.faults.machine_rows import MACHINE_ROWS
from vehicled.studies.faults.sensor_rows import SENSOR_ROWS
from vehicled.studies.faults.start_rows import START_ROWS

ROWS = (*SENSOR_ROWS, *START_ROWS, *DEVICE_ROWS, *MACHINE_ROWS)
"""All rows, in the order of the table."""
BY_NAME = {row.name: row for row in ROWS}
