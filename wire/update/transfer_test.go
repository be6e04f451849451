package update

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/storage/pieces"
)

// node takes a signed update of objects by their hashes, and asks for one thing after the other.
type node struct {
	t     *testing.T
	want  []pieces.Sum
	have  map[pieces.Sum][]byte
	asked int
	// forgets says that it does not keep what comes; breaks that a message is not answered.
	forgets bool
	breaks  int
	rounds  int
	largest int
}

func TestAnAnswerTellsOfABootLoaderThatIsTriedLater(t *testing.T) {
	const later = "; its boot loader is tried at the restart after the system has shown that it stays"
	brings := &Change{Loader: true}
	require.Equal(t, "update 0 runs already (x)"+later, Answer{Unchanged: true, Entry: "x", Change: brings}.Text())
	require.Equal(t, "update 0 runs already (x)", Answer{Unchanged: true, Entry: "x", Change: &Change{}}.Text())
	require.Equal(t, "no", Answer{Error: "no", Change: brings}.Text())
	require.NotContains(t, Answer{Lacks: &Lack{}, Change: brings}.Text(), later)
	require.NotContains(t, Answer{DryRun: true, Change: brings}.Text(), later)
	require.Empty(t, Answer{}.Later())
}

func (n *node) take(_ context.Context, message io.Reader) (Answer, error) {
	n.rounds++
	data, err := io.ReadAll(message)
	require.NoError(n.t, err)
	n.largest = max(n.largest, len(data))
	r := bufio.NewReader(bytes.NewReader(data))
	h, err := Read(r, public(1))
	require.NoError(n.t, err)
	if n.breaks--; n.breaks == 0 {
		return Answer{}, errors.New("connection reset by peer")
	}
	require.NoError(n.t, Objects(r, func(content []byte) error {
		if !n.forgets {
			n.have[sha256.Sum256(content)] = bytes.Clone(content)
		}
		return nil
	}))
	lack := Lack{}
	for _, sum := range n.want {
		if n.have[sum] == nil {
			lack.Count++
			lack.Bytes += 6 << 20
			if lack.Count <= n.asked {
				lack.Objects = append(lack.Objects, sum.String())
			}
		}
	}
	if lack.Count > 0 {
		return Answer{Serial: h.Serial, Lacks: &lack}, nil
	}
	return Answer{Serial: h.Serial, Entry: "spore_1.efi"}, nil
}

func newNode(t *testing.T, count int) (*node, map[pieces.Sum][]byte) {
	n := &node{t: t, have: map[pieces.Sum][]byte{}, asked: MaxAsked}
	all := map[pieces.Sum][]byte{}
	for i := range count {
		content := bytes.Repeat([]byte{byte(i + 1)}, 6<<20)
		sum := pieces.Sum(sha256.Sum256(content))
		n.want, all[sum] = append(n.want, sum), content
	}
	return n, all
}

func transfer(t *testing.T, n *node, objects map[pieces.Sum][]byte) Transfer {
	head, err := Sign(someHead(), key(1))
	require.NoError(t, err)
	return Transfer{Head: head, Send: n.take, Object: func(_ context.Context, sum pieces.Sum) ([]byte, error) {
		if content, ok := objects[sum]; ok {
			return content, nil
		}
		return nil, errors.New("it is none of the update")
	}}
}

func TestANodeIsSentWhatItLacks(t *testing.T) {
	n, all := newNode(t, 5)
	n.have[n.want[1]] = all[n.want[1]]
	tr := transfer(t, n, all)
	var lacks []int
	var sent []int64
	tr.Progress = func(l Lack, bytes int64) { lacks, sent = append(lacks, l.Count), append(sent, bytes) }
	a, err := tr.Run(context.Background())
	require.NoError(t, err)
	require.Equal(t, "spore_1.efi", a.Entry)
	require.Equal(t, []int{4, 2}, lacks, "two objects of 6 MiB fit in a message")
	require.Equal(t, []int64{0, 12 << 20}, sent)
	require.Less(t, n.largest, MaxMessage)
	require.Equal(t, 3, n.rounds)
}

func TestABrokenTransferGoesOnWhereItStopped(t *testing.T) {
	n, all := newNode(t, 5)
	n.breaks = 3
	_, err := transfer(t, n, all).Run(context.Background())
	require.ErrorContains(t, err, "connection reset")
	require.Len(t, n.have, 2)
	n.rounds = 0
	a, err := transfer(t, n, all).Run(context.Background())
	require.NoError(t, err)
	require.Equal(t, "spore_1.efi", a.Entry)
	require.Equal(t, 3, n.rounds, "three objects in two messages")
}

func TestATransferEndsWithANodeThatDoesNotKeepOrAsksForOther(t *testing.T) {
	n, all := newNode(t, 2)
	n.forgets = true
	_, err := transfer(t, n, all).Run(context.Background())
	require.ErrorContains(t, err, "asks again for what it was sent")
	require.LessOrEqual(t, n.rounds, maxRounds+2)

	n, _ = newNode(t, 2)
	_, err = transfer(t, n, nil).Run(context.Background())
	require.ErrorContains(t, err, "it is none of the update")

	n, all = newNode(t, 2)
	n.asked = 0
	_, err = transfer(t, n, all).Run(context.Background())
	require.ErrorContains(t, err, "does not say what")

	n, all = newNode(t, 1)
	tr := transfer(t, n, all)
	tr.Send = func(context.Context, io.Reader) (Answer, error) {
		return Answer{Lacks: &Lack{Objects: []string{"../../etc/passwd"}, Count: 1}}, nil
	}
	_, err = tr.Run(context.Background())
	require.ErrorContains(t, err, "is not a SHA-256")
	tr.Send = func(context.Context, io.Reader) (Answer, error) { return Answer{Error: "no", Lacks: &Lack{}}, nil }
	a, err := tr.Run(context.Background())
	require.NoError(t, err)
	require.Equal(t, "no", a.Text())
}

func TestObjectsAreReadOneAfterTheOther(t *testing.T) {
	read := func(data []byte) (out []string, err error) {
		err = Objects(bufio.NewReader(bytes.NewReader(data)), func(content []byte) error {
			out = append(out, string(content))
			return nil
		})
		return out, err
	}
	both := AppendObject(AppendObject(nil, []byte("one")), []byte("second"))
	got, err := read(both)
	require.NoError(t, err)
	require.Equal(t, []string{"one", "second"}, got)
	got, err = read(nil)
	require.NoError(t, err)
	require.Empty(t, got)
	for name, bad := range map[string][]byte{
		"cut in a length": both[:9], "cut in content": both[:len(both)-1], "an object of nothing": {0, 0, 0, 0}, "an object of 4 GiB": {255, 255, 255, 255, 1},
	} {
		_, err := read(bad)
		require.ErrorIs(t, err, ErrForm, name)
	}
	stop := errors.New("stop")
	require.ErrorIs(t, Objects(bufio.NewReader(bytes.NewReader(both)), func([]byte) error { return stop }), stop)
}

func FuzzObjects(f *testing.F) {
	f.Add(AppendObject(AppendObject(nil, []byte("one")), []byte("second")))
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		var again []byte
		err := Objects(bufio.NewReader(bytes.NewReader(data)), func(content []byte) error {
			again = AppendObject(again, content)
			return nil
		})
		require.True(t, bytes.HasPrefix(data, again))
		if err == nil {
			require.Equal(t, len(data), len(again))
		}
	})
}
