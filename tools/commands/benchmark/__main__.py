import sys

from tools.commands.benchmark.benchmark import main

sys.exit(main())
