import sys

from tools.pipeline.graph.graph import main

sys.exit(main())
