import sys

from tools.monitor.monitor import main

sys.exit(main())
