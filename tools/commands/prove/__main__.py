import sys

from tools.commands.prove.prove import main

sys.exit(main())
