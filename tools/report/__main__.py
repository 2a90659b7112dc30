import sys

from tools.report.report import main

sys.exit(main())
