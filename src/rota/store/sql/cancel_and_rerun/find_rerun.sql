select rerun from reruns where task = $1
