import sys

from tools.commands.infer.infer import main

sys.exit(main())
