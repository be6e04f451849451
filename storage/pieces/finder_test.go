package pieces

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever the hashes are, all pieces are found, in their order: those of one hash, and those that somebody chose to
// begin alike.
func TestAllPiecesAreFoundInTheirOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, sum := range map[string]func(i int) Sum{
		"even":         func(int) Sum { return Sum{byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32())} },
		"some alike":   func(i int) Sum { return Sum{byte(rng.IntN(4)), 5: byte(i % 3)} },
		"one":          func(int) Sum { return Sum{9} },
		"begin alike":  func(i int) Sum { return Sum{255, 255, 255, 255, byte(rng.IntN(9)), byte(i % 2)} },
		"the last one": func(int) Sum { return Sum{255, 255, 255, 255, 255} },
	} {
		for _, n := range []int{0, 1, 2, 3, 31, 32, 33, 64, 1000} {
			var x Index
			want := map[Sum][]uint32{}
			offset := int64(0)
			var offsets []int64
			for i := range n {
				p := Piece{int64(1 + i%7), sum(i)}
				x = append(x, p)
				want[p.Sum] = append(want[p.Sum], uint32(i))
				offsets, offset = append(offsets, offset), offset+p.Size
			}
			f := NewFinder(x)
			for s, list := range want {
				require.Equal(t, list, f.Find(s), "%s, %d", name, n)
			}
			for i, at := range offsets {
				require.Equal(t, at, f.Offset(i))
			}
			for _, none := range []Sum{{}, {1, 2, 3, 4, 5, 6}, {255, 255, 255, 255, 254, 9}} {
				require.Equal(t, want[none], append([]uint32(nil), f.Find(none)...))
			}
		}
	}
}

func BenchmarkNewFinder(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := make(Index, 12000)
	for i := range x {
		for j := range x[i].Sum {
			x[i].Sum[j] = byte(rng.Uint32())
		}
		x[i].Size = 1
	}
	for b.Loop() {
		NewFinder(x)
	}
}
