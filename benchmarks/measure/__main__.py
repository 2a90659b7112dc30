import sys

from benchmarks.measure.benchmark import main

sys.exit(main())
