package formation

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	nonce1 = "00112233445566778899aabbccddeeff"
	nonce2 = "ffeeddccbbaa99887766554433221100"
)

// good is an answer with all that there can be.
const good = `{"cluster":"c","node":"A","service":"kafka","known":true,"nonce":"` + nonce1 + `","initial":["A","B"],"follows":"` + nonce1 +
	`","record":{"writer":"A","members":{"A":"` + nonce1 + `","B":"` + nonce2 + `"}},"made":true,"formed":true}`

func TestAnswersAreReadAndContradictionsRefused(t *testing.T) {
	a, err := readAnswer(bytes.NewReader([]byte(good)), "c", "A", "kafka")
	require.NoError(t, err)
	require.Equal(t, &Record{Writer: "A", Members: map[string]string{"A": nonce1, "B": nonce2}}, a.Record)
	for name, tc := range map[string]struct{ old, new, problem string }{
		"cut off":                       {`}},"made":true,"formed":true}`, "", "unexpected EOF"},
		"two answers":                   {`"formed":true}`, `"formed":true}{}`, "something follows"},
		"a short nonce":                 {`"nonce":"00`, `"nonce":"`, "not the form"},
		"no nonce":                      {`"nonce":"` + nonce1 + `",`, "", "not the form"},
		"a nonce to follow that is one": {`"follows":"00`, `"follows":"zz`, "not the form"},
		"no members":                    {`["A","B"]`, `[]`, "there are 0"},
		"members that are not sorted":   {`["A","B"]`, `["B","A"]`, "not sorted"},
		"a member twice":                {`["A","B"]`, `["A","A"]`, "not sorted"},
		"a member without name":         {`["A","B"]`, `["","B"]`, "empty or too long"},
		"a record of others":            {`"members":{"A":"` + nonce1, `"members":{"A":"` + nonce2, "its holder's nonce is not in it"},
		"a record without its writer":   {`"writer":"A"`, `"writer":"C"`, "its writer is not in it"},
		"a record with a bad nonce":     {`"B":"ff`, `"B":"f`, "not the form"},
		"made and never formed":         {`,"formed":true`, "", "contradicts itself"},
		"a number for a name":           {`"node":"A"`, `"node":1`, "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			text := bytes.Replace([]byte(good), []byte(tc.old), []byte(tc.new), 1)
			require.NotEqual(t, good, string(text))
			_, err := readAnswer(bytes.NewReader(text), "c", "A", "kafka")
			require.ErrorContains(t, err, tc.problem)
		})
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"cluster":"c","node":"A","service":"kafka","known":false,"nonce":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := parseAnswer(data)
		if err != nil {
			return
		}
		again, err := parseAnswer(encodeAnswer(a))
		require.NoError(t, err)
		require.Equal(t, encodeAnswer(a), encodeAnswer(again))
		if !a.Known {
			require.Nil(t, a.Record)
			require.Empty(t, a.Nonce)
			return
		}
		// Whatever it says, deciding on it neither panics nor forms by a record of others.
		s := State{Cluster: "c", Node: "B", Nonce: nonce2, Initial: []string{"A", "B"}, Follows: nonce1}
		if v := judge(s, map[string]Reply{"A": {Answer: a}}); v.state.Record != nil {
			require.Equal(t, nonce2, v.state.Record.Members["B"])
		}
	})
}
