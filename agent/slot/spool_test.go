package slot

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
	"spore/wire/update"
)

func TestWhatIsPutIsTakenOnceAndAnswered(t *testing.T) {
	s := Spool(t.TempDir())
	none, err := s.Next()
	require.NoError(t, err)
	require.Nil(t, none)
	id, err := s.Put(strings.NewReader("update"), 6, Wish{By: "anna", Reboot: true})
	require.NoError(t, err)
	a, err := s.Answered(id)
	require.NoError(t, err)
	require.Nil(t, a)

	j, err := s.Next()
	require.NoError(t, err)
	require.Equal(t, Wish{By: "anna", Reboot: true}, j.Wish)
	var b bytes.Buffer
	require.NoError(t, j.CopyTo(&b, 6))
	require.Equal(t, "update", b.String())
	require.NoError(t, j.Answer(update.Answer{Serial: 3, Entry: "x.efi"}))
	a, err = s.Answered(id)
	require.NoError(t, err)
	require.EqualValues(t, 3, a.Serial)
	left, err := os.ReadDir(string(s))
	require.NoError(t, err)
	require.Empty(t, left)
}

// The spool belongs to a user who has no business with other files of the machine.
func TestWhatIsNoUpdateInTheSpoolIsNotRead(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	for name, make := range map[string]func(path string) error{
		"a link":             func(p string) error { return os.Symlink(secret, p) },
		"a folder":           func(p string) error { return os.Mkdir(p, 0o700) },
		"more than it bears": func(p string) error { return os.WriteFile(p, []byte("1234567"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			s := Spool(t.TempDir())
			require.NoError(t, make(filepath.Join(string(s), "1.update")))
			require.NoError(t, os.Symlink(secret, filepath.Join(string(s), "1.wish")))
			j, err := s.Next()
			require.NoError(t, err)
			require.Equal(t, Wish{}, j.Wish)
			require.Error(t, j.CopyTo(&bytes.Buffer{}, 6))
			require.NoError(t, j.Answer(update.Answer{Error: "no"}))
			none, err := s.Next()
			require.NoError(t, err)
			require.Nil(t, none, "it is not tried again and again")
		})
	}
	_, err := os.Stat(secret)
	require.NoError(t, err)
	s := Spool(t.TempDir())
	_, err = s.Put(strings.NewReader("1234567"), 6, Wish{})
	require.ErrorContains(t, err, "more than 6 bytes")
	left, err := os.ReadDir(string(s))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestTheAPIAnswersWithWhatBecameOfIt(t *testing.T) {
	for name, answer := range map[string]update.Answer{
		"taken":   {Serial: 4, Entry: "x+3.efi", Reboot: true},
		"refused": {Error: "the update is refused"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Spool(t.TempDir())
			go func() {
				for {
					if j, err := s.Next(); err == nil && j != nil && j.Wish == (Wish{By: "anna", Reboot: true}) {
						_ = j.Answer(answer)
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			}()
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "/v1/update?reboot=true", strings.NewReader("update"))
			Handler(s)(w, r, nodeapi.Caller{Name: "anna"})
			require.Equal(t, http.StatusOK, w.Code)
			var got update.Answer
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
			require.Equal(t, answer, got)
		})
	}
}

func TestAPushHasNoOtherParameters(t *testing.T) {
	for query, want := range map[string]string{
		"force=true":             `there is no parameter "force"`,
		"reboot=true&force=true": `there is no parameter "force"`,
		"reboot=true&reboot=no":  "more than once",
		"reboot=perhaps":         `reboot is "perhaps"`,
		"by=bert":                `there is no parameter "by"`,
	} {
		s := Spool(t.TempDir())
		w := httptest.NewRecorder()
		Handler(s)(w, httptest.NewRequest(http.MethodPost, "/v1/update?"+query, strings.NewReader("update")), nodeapi.Caller{Name: "anna"})
		require.Equal(t, http.StatusBadRequest, w.Code, query)
		require.Contains(t, w.Body.String(), want)
		left, err := os.ReadDir(string(s))
		require.NoError(t, err)
		require.Empty(t, left)
	}
	for query, want := range map[string]bool{"": false, "reboot=false": false, "reboot=true": true} {
		v, err := url.ParseQuery(query)
		require.NoError(t, err)
		var reboot bool
		require.NoError(t, parseWish(v, flags{"reboot": &reboot}))
		require.Equal(t, want, reboot)
	}
}

func TestWhatIsAskedForReachesRoot(t *testing.T) {
	for query, tt := range map[string]struct {
		handler func(Spool) func(http.ResponseWriter, *http.Request, nodeapi.Caller)
		want    Wish
	}{
		"dryRun=true":                    {Handler, Wish{By: "anna", DryRun: true}},
		"reboot=true&giveUpWayBack=true": {Handler, Wish{By: "anna", Reboot: true, GiveUp: true}},
		"":                               {BackHandler, Wish{By: "anna", Back: true}},
		"dryRun=1":                       {BackHandler, Wish{By: "anna", Back: true, DryRun: true}},
	} {
		s := Spool(t.TempDir())
		wishes := make(chan Wish, 1)
		go func() {
			for {
				if j, err := s.Next(); err == nil && j != nil {
					_ = j.Answer(update.Answer{Serial: 4})
					wishes <- j.Wish
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
		w := httptest.NewRecorder()
		tt.handler(s)(w, httptest.NewRequest(http.MethodPost, "/x?"+query, strings.NewReader("")), nodeapi.Caller{Name: "anna"})
		require.Equal(t, http.StatusOK, w.Code, w.Body.String())
		require.Equal(t, tt.want, <-wishes)
	}
	w := httptest.NewRecorder()
	BackHandler(Spool(t.TempDir()))(w, httptest.NewRequest(http.MethodPost, "/x?reboot=true", nil), nodeapi.Caller{})
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), `there is no parameter "reboot"`)
}
