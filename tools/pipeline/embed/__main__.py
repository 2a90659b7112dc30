import sys

from tools.pipeline.embed.embed import main

sys.exit(main())
