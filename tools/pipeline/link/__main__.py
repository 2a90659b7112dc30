import sys

from tools.pipeline.link.link import main

sys.exit(main())
