package dashboard

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/fleet/logs"
)

// fill takes all seats that there are.
func (s *seats) fill() {
	for range s.all {
		s.take(context.Background())
	}
}

func TestNobodyTakesTheSeatsOfAllOthers(t *testing.T) {
	s := seats{all: 3, each: 2, full: "all %d", own: "own %d"}
	anna, bert := WithGuest(t.Context(), &Guest{Name: "anna"}), WithGuest(t.Context(), &Guest{Name: "bert"})
	first, why := s.take(anna)
	require.NotNil(t, first, why)
	second, _ := s.take(WithGuest(t.Context(), &Guest{Name: "anna", Role: "admin"}))
	require.NotNil(t, second)
	none, why := s.take(anna)
	require.Nil(t, none)
	require.Equal(t, "own 2", why)
	third, _ := s.take(bert)
	require.NotNil(t, third, "there is one for somebody else")
	none, why = s.take(bert)
	require.Nil(t, none)
	require.Equal(t, "all 3", why)
	first()
	first()
	second()
	third()
	require.Zero(t, s.taken)
	require.Empty(t, s.of)
	for range 3 { // Of a command, all who look are one, and none is a guest.
		leave, _ := s.take(t.Context())
		require.NotNil(t, leave)
	}
}

func TestAGuestLeavesRoomForOthers(t *testing.T) {
	p := newPlant(t, "edge-01")
	begun, end := make(chan struct{}), make(chan struct{})
	served(t, p, Asker{Logs: func(context.Context, logs.Question) (logs.Found, error) {
		begun <- struct{}{}
		<-end
		return logs.Found{}, nil
	}})
	open := func(name string) string {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/logs?grep=x", nil)
		p.server.ServeHTTP(w, r.WithContext(WithGuest(r.Context(), &Guest{Name: name, Ends: p.now})))
		return w.Body.String()
	}
	done := make(chan string)
	for _, name := range []string{"anna", "anna", "bert"} {
		if name == "bert" {
			require.Contains(t, open("anna"), "you have 2 searches under way")
		}
		go func() { done <- open(name) }()
		<-begun
	}
	require.Contains(t, open("carl"), "3 searches are under way")
	close(end)
	for range 3 {
		require.NotContains(t, <-done, "under way")
	}
}
