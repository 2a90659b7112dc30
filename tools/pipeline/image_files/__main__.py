import sys

from tools.pipeline.image_files.image_files import main

sys.exit(main())
