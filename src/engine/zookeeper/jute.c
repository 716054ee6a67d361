/* jute.c: how do records become bytes, and bytes records? */
#include "engine/zookeeper/jute.h"
