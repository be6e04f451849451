// Package share is what a node gives to the other nodes of its cluster of an update that they fetch: the pieces of the
// root that it runs, and those that it has fetched itself for them. It also says which two nodes fetch a piece from
// outside, so that a site does it once or twice and not once for each node.
//
// Nothing of it is trusted by those who ask: they hold each piece to its hash.
package share

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"net/http"
	"strconv"

	"spore/agent/api"
	"spore/storage/pieces"
	"spore/wire/nodeapi"
)

// AtOnce is how many pieces a node gives at once; others are told to come again.
const AtOnce = 32

// Source has pieces. The error is fs.ErrNotExist for those that it does not have.
type Source interface {
	Get(sum pieces.Sum) ([]byte, error)
}

// Row gives other nodes what is on a shelf and what else there is.
func Row(shelf *Shelf, more ...Source) api.Row {
	return api.Row{
		Method: http.MethodGet, Path: nodeapi.PiecesPath + "{sum}", Who: []nodeapi.Role{nodeapi.Node},
		AtOnce: AtOnce, Handle: api.Plain(handler(shelf.Ended, append([]Source{shelf}, more...)...)),
	}
}

// handler gives pieces of sources (nodeapi.PiecesPath). ended tells whether the node fetches nothing more of the update
// with this head.
func handler(ended func(head string) bool, sources ...Source) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum, err := pieces.ParseSum(r.PathValue("sum"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		// Asked before it is looked: between the two it may come.
		over := ended(r.URL.Query().Get(nodeapi.PieceOf))
		for _, s := range sources {
			content, err := s.Get(sum)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			_, _ = w.Write(content)
			return
		}
		if over {
			http.Error(w, "this node does not have it, and does not fetch it", http.StatusGone)
			return
		}
		http.Error(w, "this node does not have it yet", http.StatusNotFound)
	})
}

// Responsible are the two nodes that fetch a piece from outside, the first one first: those with the highest weight of
// name and piece (rendezvous hashing), so that all nodes agree, and pieces are spread over them. second is empty where
// there is one node alone, and both are where there is none.
type Responsible struct{ First, Second string }

// Nodes are the nodes among which responsibility is spread.
type Nodes struct {
	names []string
	seeds []uint64
}

// NewNodes takes the names of nodes, in any order.
func NewNodes(names []string) Nodes {
	n := Nodes{names: names, seeds: make([]uint64, len(names))}
	for i, name := range names {
		sum := pieces.SumOf([]byte(name))
		n.seeds[i] = binary.BigEndian.Uint64(sum[:])
	}
	return n
}

// Of says who is responsible for a piece.
func (n Nodes) Of(sum pieces.Sum) Responsible {
	var r Responsible
	var first, second uint64
	of := binary.BigEndian.Uint64(sum[:])
	for i, name := range n.names {
		switch w := mix(n.seeds[i] ^ of); {
		case r.First == "" || w > first:
			r, first, second = Responsible{name, r.First}, w, first
		case r.Second == "" || w > second:
			r.Second, second = name, w
		}
	}
	return r
}

// mix spreads each bit over all (the finalizer of splitmix64, Steele and others, 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
