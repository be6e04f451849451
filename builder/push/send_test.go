package push

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/storage/pieces"
	"spore/wire/nodeapi"
	"spore/wire/update"
)

func TestANodeIsSentWhatChangedAndNothingElse(t *testing.T) {
	p := newOperator(t)
	old := noise(1, 1<<20)
	fresh := changed(old, 100<<10, "a fix of OpenSSL")
	n := p.node("edge-01", built(t, old, "part", true))
	c := built(t, fresh, "part", true)
	u := p.update(Options{}, c)
	var said []string
	a, err := sender(u, url.Values{}, &said, n).Send(context.Background(), "edge-01")
	require.NoError(t, err)
	require.Empty(t, a.Error)
	require.NotEmpty(t, a.Entry)
	messages, bytes := n.Received()
	require.Equal(t, 3, messages, "the head; the indexes; a piece")
	require.Equal(t, u.Head.Root.Index.Size+u.Head.Boot.Size+16<<10, bytes)
	require.Equal(t, []string{"edge-01 lacks 1 pieces, 0.0 MiB"}, said)

	n.Restart()
	require.Equal(t, c.RootHash, n.Runs().RootHash)
	got, err := os.ReadFile(n.Runs().Root)
	require.NoError(t, err)
	require.Equal(t, fresh, got)

	a, err = sender(u, url.Values{}, &said, n).Send(context.Background(), "edge-01")
	require.NoError(t, err)
	require.True(t, a.Unchanged)
	after, again := n.Received()
	require.Equal(t, messages+1, after)
	require.Equal(t, bytes, again, "the same again is the head alone")
}

func TestAConfigurationAloneIsSentWithoutTheRoot(t *testing.T) {
	p := newOperator(t)
	root := noise(1, 1<<20)
	n := p.node("edge-01", built(t, root, "part", true))
	c := built(t, root, "another part", true)
	var said []string
	a, err := sender(p.update(Options{}, c), url.Values{"reboot": {"true"}}, &said, n).Send(context.Background(), "edge-01")
	require.NoError(t, err)
	require.True(t, a.Reboot)
	require.False(t, a.Change.Root)
	require.Equal(t, c.UKI, n.Runs().UKI)
	require.Equal(t, "another part", string(n.Runs().Part))
	_, bytes := n.Received()
	require.Less(t, bytes, int64(8<<10))
}

// everything is an update of which a node has nothing, in so many messages.
func everything(t *testing.T, asked int) (*operator, *Update, func() *receiver) {
	p := newOperator(t)
	u := p.update(Options{}, built(t, noise(2, 1<<20), "part", true))
	before := built(t, noise(1, 1<<20), "other", true)
	return p, u, func() *receiver {
		r := &receiver{}
		n := p.node("edge-01", before)
		n.Asked = asked
		r.sender = sender(u, url.Values{}, &r.said, n)
		r.received = n.Received
		r.breaks = func(f func(int) error) { n.Break = f }
		return r
	}
}

type receiver struct {
	sender   Sender
	said     []string
	received func() (int, int64)
	breaks   func(func(int) error)
}

func TestATransferGoesOnWhereAConnectionBroke(t *testing.T) {
	_, u, receiver := everything(t, 10)
	whole := receiver()
	_, err := whole.sender.Send(context.Background(), "edge-01")
	require.NoError(t, err)
	messages, all := whole.received()
	require.Equal(t, 9, messages, "the head; the indexes; 64 pieces of the root and those of the UKI")

	reset := errors.New("no answer: connection reset by peer")
	for at := 2; at <= messages; at++ {
		r := receiver()
		r.breaks(func(message int) error {
			if message == at {
				return reset
			}
			return nil
		})
		a, err := r.sender.Send(context.Background(), "edge-01")
		require.NoError(t, err, at)
		require.Equal(t, u.Head.Serial, a.Serial)
		_, bytes := r.received()
		require.Equal(t, all, bytes, "nothing is sent twice that the node kept")
		require.Contains(t, r.said, "edge-01 is tried again in 0s: no answer: connection reset by peer")
	}

	r := receiver()
	r.breaks(func(message int) error {
		if message%2 == 0 {
			return reset
		}
		return nil
	})
	_, err = r.sender.Send(context.Background(), "edge-01")
	require.NoError(t, err, "it may break as often as it likes, as long as something arrives")

	r = receiver()
	r.breaks(func(message int) error {
		if message > 3 {
			return reset
		}
		return nil
	})
	_, err = r.sender.Send(context.Background(), "edge-01")
	require.ErrorContains(t, err, "run the command again to go on")
	r.breaks(nil)
	_, err = r.sender.Send(context.Background(), "edge-01")
	require.NoError(t, err)
	_, bytes := r.received()
	require.Equal(t, all, bytes, "the command goes on where it stopped")
}

func TestWhatIsNotTriedAgain(t *testing.T) {
	_, _, receiver := everything(t, 10)
	for name, tt := range map[string]struct {
		err   error
		after int
		tries int
	}{
		"a node that is off":                     {errors.New("no answer: no route to host"), 0, 1},
		"a node that is off in the middle of it": {errors.New("no answer: no route to host"), 1, 5},
		"a node that refuses who asks":           {nodeapi.Refusal{Status: 403, Text: "no"}, 0, 1},
		"a node that refuses who asks later":     {nodeapi.Refusal{Status: 403, Text: "no"}, 1, 2},
		"a node that is busy":                    {nodeapi.Refusal{Status: 503, Text: "come again"}, 0, 4},
		"a node without room":                    {nodeapi.Refusal{Status: 507, Text: "full"}, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := receiver()
			post, tries := r.sender.Post, 0
			r.sender.Post = func(ctx context.Context, node string, message io.Reader) (update.Answer, error) {
				if tries++; tries > tt.after {
					return update.Answer{}, tt.err
				}
				return post(ctx, node, message)
			}
			_, err := r.sender.Send(context.Background(), "edge-01")
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, tt.tries, tries)
		})
	}
	r := receiver()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.sender.Post = func(context.Context, string, io.Reader) (update.Answer, error) { return update.Answer{}, ctx.Err() }
	_, err := r.sender.Send(ctx, "edge-01")
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, r.said)
}

func TestANodeThatLiesIsLeft(t *testing.T) {
	_, u, receiver := everything(t, 10)
	for want, answer := range map[string]update.Lack{
		"the update has nothing with this hash": {Objects: []string{pieces.Sum{7}.String()}, Count: 1, Bytes: 1},
		"is not a SHA-256":                      {Objects: []string{"../../etc/shadow"}, Count: 1, Bytes: 1},
		"does not say what":                     {Count: 7, Bytes: 7},
		"asks again for what it was sent":       {Objects: []string{u.Head.Boot.SHA256}, Count: 1, Bytes: u.Head.Boot.Size},
		"asks again":                            {Objects: []string{u.set.RootPieces[0].Sum.String()}, Count: 1, Bytes: 16 << 10},
	} {
		r := receiver()
		tries := 0
		r.sender.Post = func(context.Context, string, io.Reader) (update.Answer, error) {
			tries++
			return update.Answer{Lacks: &answer}, nil
		}
		_, err := r.sender.Send(context.Background(), "edge-01")
		require.ErrorContains(t, err, want)
		require.Less(t, tries, 10)
		for _, text := range r.said {
			require.NotContains(t, text, "tried again")
		}
	}
	r := receiver()
	tries := 0
	r.sender.Post = func(context.Context, string, io.Reader) (update.Answer, error) {
		if tries++; tries%3 == 0 {
			return update.Answer{}, errors.New("no answer: reset")
		}
		return update.Answer{Lacks: &update.Lack{Objects: []string{u.set.RootPieces[0].Sum.String()}, Count: 1, Bytes: 16 << 10}}, nil
	}
	_, err := r.sender.Send(context.Background(), "edge-01")
	require.ErrorContains(t, err, "no answer: reset", "what it forgets is no progress")
	require.Less(t, tries, 20)
}

func TestOfTwoUpdatesAtOnceTheNewerOneIsTaken(t *testing.T) {
	p := newOperator(t)
	n := p.node("edge-01", built(t, noise(1, 1<<20), "part", true))
	n.Asked = 3
	older := p.update(Options{}, built(t, noise(2, 1<<20), "part two", true))
	c := built(t, noise(3, 1<<20), "part three", true)
	newer := p.update(Options{}, c)
	var wg sync.WaitGroup
	for _, u := range []*Update{older, newer} {
		wg.Go(func() {
			var said []string
			a, err := sender(u, url.Values{}, &said, n).Send(context.Background(), "edge-01")
			if err == nil && a.Error != "" {
				err = errors.New(a.Error)
			}
			if u == newer || err == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "the update is older")
		})
	}
	wg.Wait()
	n.Restart()
	require.Equal(t, c.RootHash, n.Runs().RootHash)
}

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", 1002003: "1,002,003"} {
		require.Equal(t, want, grouped(n))
	}
	require.Equal(t, "12.3 MiB", mebibytes(12_900_000))
}
