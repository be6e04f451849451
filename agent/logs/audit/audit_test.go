package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/logs/send"
	"spore/wire/journalexport"
)

// record is one as kube-apiserver writes it at the level Metadata.
func record(id int, more string) string {
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","auditID":"%08d-0000-4000-8000-000000000000","stage":"ResponseComplete",`+
		`"requestURI":"/apis/apps/v1/namespaces/default/deployments?fieldManager=kubectl-create&limit=500","verb":"create",`+
		`"user":{"username":"plant:anna","groups":["plant:operators","system:authenticated"]},"sourceIPs":["10.0.0.1"],"userAgent":"kubectl/v1.34.2",`+
		`"objectRef":{"resource":"deployments","namespace":"default","name":"web","apiGroup":"apps","apiVersion":"v1"},`+
		`"responseStatus":{"metadata":{},"code":201}%s,"requestReceivedTimestamp":"2026-11-26T12:00:00.000001Z","stageTimestamp":"2026-11-26T12:00:00.000002Z"}`, id, more)
}

func field(t *testing.T, e journalexport.Entry, name string) string {
	t.Helper()
	text, ok := e.Get(name)
	require.True(t, ok, name)
	return text
}

func TestARecordSaysWhoDidWhat(t *testing.T) {
	line := record(7, "")
	e, ok := Parse([]byte(line), 0, "file=x;offset=0", time.Time{})
	require.True(t, ok)
	for name, want := range map[string]string{
		"__CURSOR": "file=x;offset=0", "__REALTIME_TIMESTAMP": "1795694400000002", "MESSAGE": "plant:anna create deployments.apps default/web 201",
		"_SPORE_SOURCE": "audit", "AUDIT_USER": "plant:anna", "AUDIT_VERB": "create", "AUDIT_RESOURCE": "deployments.apps", "AUDIT_NAMESPACE": "default",
		"AUDIT_NAME": "web", "AUDIT_CODE": "201", "AUDIT_ID": "00000007-0000-4000-8000-000000000000",
	} {
		require.Equal(t, want, field(t, e, name), name)
	}
	require.JSONEq(t, line, field(t, e, Event))
	_, ok = e.Get(journalexport.Cut)
	require.False(t, ok)

	e, ok = Parse([]byte(`{"auditID":"a","verb":"get","requestURI":"/metrics?x=y","user":{"username":"u"},"impersonatedUser":{"username":"admin"},`+
		`"requestReceivedTimestamp":"2026-11-26T12:00:00Z"}`), 0, "", time.Time{})
	require.True(t, ok)
	require.Equal(t, "u as admin get /metrics", field(t, e, "MESSAGE"))
	require.Equal(t, "admin", field(t, e, As))
	for _, line := range []string{
		"", "x", "[]", "{}", `{"auditID":7}`, `{"auditID":"a"}`, `{"auditID":"a","stageTimestamp":"9999-01-01T00:00:00Z"}`, line[:len(line)-1], "\x00\x00",
	} {
		_, ok := Parse([]byte(line), 0, "", time.Time{})
		require.False(t, ok, line)
	}
}

func TestARecordHasNoValueThatMayBeSecret(t *testing.T) {
	const mark = "hunter2"
	for name, more := range map[string]string{
		"a variable":          `,"requestObject":{"kind":"Deployment","spec":{"template":{"spec":{"containers":[{"name":"a","env":[{"name":"DB","value":"hunter2"}]}]}}}}`,
		"as it was applied":   `,"requestObject":{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"value\":\"hunter2\"}"}}}`,
		"a command":           `,"requestObject":{"spec":{"containers":[{"command":["sh","-c","login hunter2"],"args":["hunter2"]}]}}`,
		"a patch":             `,"requestObject":[{"op":"replace","path":"/spec/x","value":"hunter2"},{"op":"add","path":"/data","value":{"a":{"b":"hunter2"}}}]`,
		"a Secret":            `,"requestObject":{"kind":"Secret","data":{"a":"hunter2"},"stringData":{"b":"hunter2"}}`,
		"a list of Secrets":   `,"responseObject":{"kind":"SecretList","items":[{"data":{"a":"hunter2"}}]}`,
		"a field's name":      `,"requestObject":{"spec":{"adminPassword":"hunter2","api_key":"hunter2","pinToken":271828,"tokens":["hunter2"],"Secret":"hunter2"}}`,
		"a token that is one": `,"responseObject":{"kind":"TokenRequest","status":{"token":"hunter2"}}`,
	} {
		e, ok := Parse([]byte(record(1, more)), 0, "", time.Time{})
		require.True(t, ok, name)
		require.NotContains(t, fmt.Sprintf("%s", e), mark, name)
		require.NotContains(t, fmt.Sprintf("%s", e), "271828", name)
		require.Contains(t, field(t, e, Event), removed, name)
		require.True(t, json.Valid([]byte(field(t, e, Event))), name)
	}
	for uri, want := range map[string]string{
		"/api/v1/namespaces/a/pods/b/exec?command=mysql&command=-phunter2&container=c&stdin=true": "?command=(removed)&command=(removed)&container=c&stdin=true",
		"/api/v1/namespaces/a/services/b/proxy/?access_token=hunter2":                             "?access_token=(removed)",
		"/api/v1/namespaces/a/services/b/proxy/?hunter2":                                          "?(removed)",
		"/x?%63ommand=hunter2&limit=5&=hunter2":                                                   "?%63ommand=(removed)&limit=5&=(removed)",
		"/x?%zz=hunter2":                                                                          "?%zz=(removed)",
	} {
		text, err := json.Marshal(map[string]any{"auditID": "a", "requestURI": uri, "stageTimestamp": "2026-11-26T12:00:00Z"})
		require.NoError(t, err)
		e, ok := Parse(text, 0, "", time.Time{})
		require.True(t, ok)
		require.NotContains(t, fmt.Sprintf("%s", e), mark)
		var got struct{ RequestURI string }
		require.NoError(t, json.Unmarshal([]byte(field(t, e, Event)), &got))
		require.True(t, strings.HasSuffix(got.RequestURI, want), got.RequestURI)
	}
	e, ok := Parse([]byte(record(1, `,"requestObject":{"spec":{"replicas":3,"volumes":[{"secret":{"secretName":"web-tls"}}],"imagePullSecrets":[{"name":"pull"}]}}`)), 0, "", time.Time{})
	require.True(t, ok)
	for _, kept := range []string{`"replicas":3`, "web-tls", "pull", "limit=500"} {
		require.Contains(t, field(t, e, Event), kept)
	}
}

func TestALongRecordKeepsWhatItsBeginningSays(t *testing.T) {
	line := record(1, `,"requestObject":{"spec":"`+strings.Repeat("x", 100_000)+`"}`)
	e, ok := Parse([]byte(line), 0, "", time.Time{})
	require.True(t, ok)
	require.Len(t, field(t, e, Event), journalexport.MaxValue)
	require.Equal(t, fmt.Sprint(len(line)-journalexport.MaxValue), field(t, e, journalexport.Cut))

	// The times stand behind the objects.
	near := time.Date(2026, 11, 26, 11, 0, 0, 0, time.UTC)
	e, ok = Parse([]byte(line[:50_000]), int64(len(line)-50_000), "", near)
	require.True(t, ok)
	require.Equal(t, "plant:anna create deployments.apps default/web 201", field(t, e, "MESSAGE"))
	require.Equal(t, fmt.Sprint(near.UnixMicro()), field(t, e, send.TimeField))
	require.NotContains(t, field(t, e, Event), "xxx")
	_, ok = Parse([]byte(line[:50_000]), int64(len(line)-50_000), "", time.Time{})
	require.False(t, ok)

	line = record(2, `,"requestObject":{"spec":[`+strings.Repeat("0,", 200_000)+`0]}`)
	e, ok = Parse([]byte(line), 0, "", near)
	require.True(t, ok)
	require.Equal(t, "1795694400000002", field(t, e, send.TimeField), "a record that is whole has its own")
	event := field(t, e, Event)
	require.True(t, json.Valid([]byte(event)))
	require.NotContains(t, event, "requestObject")
	require.Equal(t, fmt.Sprint(len(line)-len(event)+1), field(t, e, journalexport.Cut))
}

// Nobody hides from the log with a request that is larger than a line may be.
func TestARecordThatIsTooLongForALineIsSent(t *testing.T) {
	dir := t.TempDir()
	s := &Source{
		Dir: dir, State: t.TempDir(), Now: time.Now, Interval: 5 * time.Millisecond, Settle: time.Millisecond,
		Say: func(s string) { t.Log(s) },
	}
	long := record(2, `,"requestObject":{"spec":"`+strings.Repeat("x", 3<<20)+`"}`)
	text := record(1, "") + "\n" + long + "\n" + record(3, "") + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, Live), []byte(text), 0o600))
	r, err := s.Open("1")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	for len(got) < 3 {
		b, err := r.Next(ctx)
		require.NoError(t, err)
		for _, e := range b.Entries {
			got = append(got, field(t, e, ID)[:8]+" "+field(t, e, send.TimeField))
		}
		require.NoError(t, r.Done(b))
	}
	require.Equal(t, []string{
		"00000001 1795694400000002", "00000002 1795694400000002", "00000003 1795694400000002",
	}, got)
	require.NoError(t, r.Close())
	require.Zero(t, malformed(s))
}

func TestTheLogIsReadOverItsRotation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kubernetes")
	s := &Source{Dir: dir, State: t.TempDir(), Now: time.Now, Interval: 5 * time.Millisecond, Settle: time.Millisecond, Say: func(s string) { t.Log(s) }}
	var r send.Reader
	open := func() {
		var err error
		r, err = s.Open("1")
		require.NoError(t, err)
	}
	written := 0
	write := func(count int) {
		require.NoError(t, os.MkdirAll(dir, 0o700))
		f, err := os.OpenFile(filepath.Join(dir, Live), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		for range count {
			written++
			_, err = f.WriteString(record(written, "") + "\n")
			require.NoError(t, err)
		}
		require.NoError(t, f.Close())
	}
	rotate := func(stamp string) {
		require.NoError(t, os.Rename(filepath.Join(dir, Live), filepath.Join(dir, "audit-2026-11-26T"+stamp+".000.log")))
	}
	next := 1
	read := func() {
		t.Helper()
		begun := time.Now()
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			b, err := r.Next(ctx)
			cancel()
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				if r.(*reader).looked.Sub(begun) < 50*time.Millisecond {
					continue // The machine is busy, and has not let it look.
				}
				return
			}
			for _, e := range b.Entries {
				require.Equal(t, fmt.Sprintf("%08d", next), field(t, e, ID)[:8])
				next++
			}
			require.NoError(t, r.Done(b))
		}
	}
	open()
	read()
	write(3)
	read()
	write(2)
	rotate("12-00-00")
	write(2)
	read()
	require.NoError(t, r.Close())
	write(1)
	rotate("12-01-00")
	write(5000)
	rotate("12-02-00")
	write(1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "audit-backup.log"), []byte(record(9999, "")+"\n"), 0o600))
	open()
	read()
	require.Equal(t, written, next-1)
	require.Zero(t, lostFiles(s))
	require.NoError(t, r.Close())

	require.NoError(t, os.Remove(filepath.Join(dir, Live)))
	for _, stamp := range []string{"00", "01", "02"} {
		require.NoError(t, os.Remove(filepath.Join(dir, "audit-2026-11-26T12-"+stamp+"-00.000.log")))
	}
	write(1)
	open()
	read()
	require.Equal(t, written, next-1)
	require.EqualValues(t, 1, lostFiles(s), "what was there is gone")
	require.NoError(t, r.Close())
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(record(1, "")), int64(0))
	f.Add([]byte(record(1, `,"requestObject":{"data":{"a":"b"}}`)), int64(0))
	f.Add([]byte(record(1, `,"requestObject":[{"value":"hunter2"}]`))[:700], int64(50))
	f.Add([]byte(`{"auditID":"a","requestURI":"/x?a=b&&=","stageTimestamp":"2026-11-26T12:00:00Z"}`), int64(0))
	f.Fuzz(func(t *testing.T, line []byte, cut int64) {
		if cut < 0 {
			return
		}
		e, ok := Parse(line, cut, "file=x;offset=0", time.Unix(1, 0))
		if !ok {
			return
		}
		require.LessOrEqual(t, len(e), 14)
		for _, f := range e {
			require.True(t, journalexport.ValidName(f.Name))
			require.LessOrEqual(t, len(f.Value), journalexport.MaxValue)
		}
		again, err := journalexport.NewReader(strings.NewReader(string(journalexport.Append(nil, e)))).Next()
		require.NoError(t, err)
		require.Len(t, again, len(e))
	})
}

func lostFiles(s *Source) int64 {
	files, _, _ := s.Lost()
	return files
}

func malformed(s *Source) int64 {
	_, _, lines := s.Lost()
	return lines
}
