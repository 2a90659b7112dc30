import sys

from tools.pipeline.report.report import main

sys.exit(main())
