import sys

from tools.embed.embed import main

sys.exit(main())
