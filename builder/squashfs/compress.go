package squashfs

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// zstdLevel is what the image's compressor options say. The encoder's SpeedDefault stands for "about zstd 3"; against 15
// it is 20 times less work for 7 to 10 percent more bytes.
const zstdLevel = 3

// newEncoder returns an encoder whose EncodeAll may be called from many goroutines; at most n of them work at once. What
// it returns depends on the input alone. The kernel allocates a window of one block (fs/squashfs/zstd_wrapper.c), so no
// frame may ask for more.
func newEncoder(blockSize uint32, n int) (*zstd.Encoder, error) {
	e, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedDefault),
		zstd.WithWindowSize(int(blockSize)),
		zstd.WithEncoderCRC(false),
		zstd.WithEncoderConcurrency(n))
	if err != nil {
		return nil, fmt.Errorf("internal error: make a zstd encoder: %w", err)
	}
	return e, nil
}

// compressed are the beginnings of formats whose data does not get smaller.
var compressed = []string{
	"\xfd7zXZ\x00",     // xz: kernel modules, firmware
	"\x1f\x8b\x08",     // gzip: manual pages, changelogs
	"\x28\xb5\x2f\xfd", // zstd: kernel modules, firmware
	"BZh",
	"PK\x03\x04", // zip: Java archives
	"\x89PNG\r\n",
	"\xff\xd8\xff", // JPEG
}

// incompressible reports whether a file that begins so is compressed already.
func incompressible(head []byte) bool {
	for _, m := range compressed {
		if len(head) >= len(m) && string(head[:len(m)]) == m {
			return true
		}
	}
	return false
}
