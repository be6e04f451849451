package ceph

import (
	"encoding/base64"
	"encoding/binary"
)

// testKey is a key of Ceph that says that it was made in that second.
func testKey(made, n byte) string {
	b := make([]byte, 28)
	b[0], b[10], b[27] = 1, 16, n
	binary.LittleEndian.PutUint32(b[2:], 1_800_000_000+uint32(made))
	return base64.StdEncoding.EncodeToString(b)
}
