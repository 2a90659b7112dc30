import sys

from tools.benchmark.benchmark import main

sys.exit(main())
