package update

import (
	"context"
	"errors"
	"fmt"
	"io"

	"spore/storage/pieces"
)

// batch is how many bytes of objects are sent at once.
const batch = 16 << 20

// Bounds of what a node may ask for: so often in turn without that it lacks less, and in all so many times what it said
// to lack at most.
const (
	maxRounds = 3
	maxAgain  = 4
)

// Transfer is one update on its way to one node.
type Transfer struct {
	// Head is what Sign returned.
	Head []byte
	// Object returns an object by its hash.
	Object func(ctx context.Context, sum pieces.Sum) ([]byte, error)
	// Send brings a message to the node and returns its answer.
	Send func(ctx context.Context, message io.Reader) (Answer, error)
	// Progress is told what the node lacks yet, and how many bytes of objects were sent. May be nil.
	Progress func(lacks Lack, sent int64)
}

// Run sends the head, then what the node lacks, until it lacks nothing or refuses. An answer with an error of the node
// is no error. It can be cut off at any point and run again: the node asks for what it does not have then.
func (t Transfer) Run(ctx context.Context) (Answer, error) {
	var objects [][]byte
	var sent, before, most int64
	rounds := 0
	for {
		a, err := t.Send(ctx, message(t.Head, objects))
		if err != nil || a.Lacks == nil || a.Error != "" || a.DryRun {
			return a, err
		}
		if t.Progress != nil {
			t.Progress(*a.Lacks, sent)
		}
		// An index makes more pieces known: what is lacking grows once for each of the two.
		if rounds++; a.Lacks.Bytes < before {
			rounds = 0
		}
		before, most = a.Lacks.Bytes, max(most, a.Lacks.Bytes)
		if rounds > maxRounds || sent/maxAgain > most {
			return a, fmt.Errorf("the node asks again for what it was sent: it lacks %d objects of %d bytes", a.Lacks.Count, a.Lacks.Bytes)
		}
		objects = objects[:0]
		size := 0
		for _, text := range a.Lacks.Objects {
			content, err := t.object(ctx, text)
			if err != nil && len(objects) > 0 {
				break // What is there is not to be fetched again; the next round begins with this one.
			}
			if err != nil {
				return a, err
			}
			if size > 0 && size+len(content) > batch {
				break
			}
			objects = append(objects, content)
			size += len(content)
		}
		if len(objects) == 0 {
			return a, errors.New("the node lacks something and does not say what")
		}
		sent += int64(size)
	}
}

func (t Transfer) object(ctx context.Context, text string) ([]byte, error) {
	sum, err := pieces.ParseSum(text)
	if err != nil {
		return nil, fmt.Errorf("the node asks for an object: %w", err)
	}
	content, err := t.Object(ctx, sum)
	if err != nil {
		return nil, fmt.Errorf("the object %.16s… of the update: %w", text, err)
	}
	return content, nil
}
