"""`python -m vehicled`."""

from vehicled.cli import main

raise SystemExit(main())
