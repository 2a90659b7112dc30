import sys

from tools.pipeline.page.page import main

sys.exit(main())
