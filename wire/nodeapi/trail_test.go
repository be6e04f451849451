package nodeapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func record() TrailRecord {
	return TrailRecord{
		ID: strings.Repeat("0f", 16), Stage: Did, Time: time.Date(2026, 11, 26, 1, 2, 3, 0, time.UTC), Node: "edge-1", User: "anna",
		Serial: "4f", Role: Operator, From: "10.0.0.1:5", Call: "reboot", Arguments: map[string]string{"wait": "1m"}, Result: "restarts",
	}
}

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	line, err := json.Marshal(record())
	require.NoError(t, err)
	got, err := ParseTrailRecord(line)
	require.NoError(t, err)
	require.Equal(t, record(), got)
}

func TestARecordThatIsMalformedIsRefused(t *testing.T) {
	for name, change := range map[string]func(*TrailRecord){
		"an id that is a path": func(r *TrailRecord) { r.ID = "../" + r.ID[3:] }, "no id": func(r *TrailRecord) { r.ID = "" },
		"another stage": func(r *TrailRecord) { r.Stage = "x" }, "no time": func(r *TrailRecord) { r.Time = time.Time{} },
		"a node that is a path": func(r *TrailRecord) { r.Node = "../x" }, "no call": func(r *TrailRecord) { r.Call = "" },
		"a serial number that is none": func(r *TrailRecord) { r.Serial = "4F" },
		"a long text":                  func(r *TrailRecord) { r.Result = strings.Repeat("x", 1000) },
		"a long argument":              func(r *TrailRecord) { r.Arguments["x"] = strings.Repeat("x", 1000) },
	} {
		r := record()
		change(&r)
		line, err := json.Marshal(r)
		require.NoError(t, err)
		_, err = ParseTrailRecord(line)
		require.Error(t, err, name)
	}
	line, err := json.Marshal(record())
	require.NoError(t, err)
	for name, text := range map[string]string{
		"nothing": "", "two": string(line) + string(line), "more than it has": strings.Replace(string(line), `"id"`, `"x":1,"id"`, 1),
		"far too much": string(line) + strings.Repeat(" ", MaxTrailRecord),
	} {
		_, err := ParseTrailRecord([]byte(text))
		require.Error(t, err, name)
	}
}

func TestWhateverIsAskedForFitsIntoARecord(t *testing.T) {
	r := record()
	r.User, r.Result = strings.Repeat("ü", 2000), "\xff"
	for i := range 100 {
		r.Arguments[fmt.Sprint(i, strings.Repeat("n", 600))] = strings.Repeat("\x1b", 4096)
	}
	line, err := json.Marshal(r.Clipped())
	require.NoError(t, err)
	_, err = ParseTrailRecord(line)
	require.NoError(t, err)
	require.Less(t, len(r.Clipped().Arguments), 18)
}

func TestLinesThatAreNoRecordsAreCounted(t *testing.T) {
	line, err := json.Marshal(record())
	require.NoError(t, err)
	seen := 0
	malformed, err := ReadTrail(strings.NewReader(fmt.Sprintf("%s\n{\n\n%s\n%s\n%s", line, strings.Repeat("x", 3*MaxTrailRecord), line, line)),
		func(TrailRecord) error { seen++; return nil })
	require.NoError(t, err)
	require.Equal(t, 2, malformed)
	require.Equal(t, 3, seen)
	_, err = ReadTrail(strings.NewReader(string(line)+"\n"), func(TrailRecord) error { return fmt.Errorf("enough") })
	require.EqualError(t, err, "enough")
}

func FuzzReadTrail(f *testing.F) {
	line, err := json.Marshal(record())
	require.NoError(f, err)
	f.Add(string(line) + "\n" + string(line[:40]) + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := ReadTrail(strings.NewReader(text), func(r TrailRecord) error {
			line, err := json.Marshal(r.Clipped())
			require.NoError(t, err)
			_, err = ParseTrailRecord(line)
			require.NoError(t, err)
			return nil
		})
		require.NoError(t, err)
	})
}
