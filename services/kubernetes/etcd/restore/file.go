package restore

import (
	"encoding/json"
	"io/fs"
	"syscall"
)

// encode is the content of committed.json.
func encode(c Committed) []byte {
	data, _ := json.Marshal(c) // strings and a time cannot fail
	return append(data, '\n')
}

// ownerOf is whose a file is.
func ownerOf(info fs.FileInfo) (uid, gid int) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1
	}
	return int(st.Uid), int(st.Gid)
}
