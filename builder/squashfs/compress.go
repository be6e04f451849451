package squashfs

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// zstdLevel is what the image's compressor options say. The encoder's SpeedDefault stands for "about zstd 3"; against 15
// it is 20 times less work for 7 to 10 percent more bytes.
const zstdLevel = 3

// standardEncoder is the encoder of all packs and images that are written with the defaults: an encoder takes two megabytes
// for each block that it works on, and hundreds of packs are written in a row. It has no state that a caller could see.
var standardEncoder = sync.OnceValues(func() (*zstd.Encoder, error) { return makeEncoder(DefaultBlockSize, runtime.GOMAXPROCS(0)) })

// newEncoder returns an encoder whose EncodeAll may be called from many goroutines; at most n of them work at once. What
// it returns depends on the input alone.
func newEncoder(blockSize uint32, n int) (*zstd.Encoder, error) {
	if blockSize == DefaultBlockSize && n == runtime.GOMAXPROCS(0) {
		return standardEncoder()
	}
	return makeEncoder(blockSize, n)
}

// makeEncoder makes an encoder. The kernel allocates a window of one block (fs/squashfs/zstd_wrapper.c), so no
// frame may ask for more.
func makeEncoder(blockSize uint32, n int) (*zstd.Encoder, error) {
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
