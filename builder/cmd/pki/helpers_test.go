package pki

import (
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

var runs atomic.Uint32

// randomSource differs from run to run.
func randomSource(now time.Time) io.Reader {
	return rand.NewChaCha8([32]byte{byte(runs.Add(1)), byte(now.Unix() >> 16)})
}
