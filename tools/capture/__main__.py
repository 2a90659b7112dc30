import sys

from tools.capture.capture import main

sys.exit(main())
