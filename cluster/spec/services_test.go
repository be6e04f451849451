package spec

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

type one struct {
	Port int `json:"port"`
}

func (*one) Service() string { return "one" }

type two struct{}

func (*two) Service() string { return "two" }

func TestSettingsAreFoundByTheirTypeAndByTheName(t *testing.T) {
	first := &one{Port: 5}
	s := Services{first}
	require.Same(t, first, Of[one](s))
	require.Same(t, first, s.Get("one"))
	require.Nil(t, Of[two](s))
	require.Nil(t, s.Get("two"))
	require.False(t, s.Has("nothing"))
}

func TestSettingsOfACopyChangeThatOneAlone(t *testing.T) {
	s := Services{&one{Port: 5}, &two{}}
	other := s
	other.Set(&one{Port: 6})
	require.Equal(t, 5, Of[one](s).Port)
	require.Equal(t, 6, Of[one](other).Port)
	other = s
	other.Remove("one")
	require.True(t, s.Has("one"))
	require.False(t, other.Has("one"))
	require.True(t, other.Has("two"))
}

func TestSettingsAreWrittenInTheirOrder(t *testing.T) {
	for want, s := range map[string]Services{
		`{}`:                          nil,
		`{"two":{},"one":{"port":5}}`: {&two{}, &one{Port: 5}},
		`{"one":{"port":0}}`:          {(*two)(nil), &one{}},
	} {
		text, err := json.Marshal(s)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}

// Whoever forgets services.ReadCluster is told, and has no node without its services.
func TestSettingsAreNotReadWithoutTheirTypes(t *testing.T) {
	var s Services
	require.ErrorContains(t, json.Unmarshal([]byte(`{"one":{"port":5}}`), &s), "services.ReadCluster")
}

// declared is a type that two services share.
type declared struct {
	name  string
	Value int `json:"value"`
}

func (d *declared) Service() string { return d.name }

func TestServicesWithOneTypeAreToldApartByTheirNames(t *testing.T) {
	a, b := &declared{"a", 1}, &declared{"b", 2}
	s := Services{a, &one{Port: 5}, b}
	require.Same(t, a, s.Get("a"))
	require.Same(t, b, s.Get("b"))
	s.Set(&declared{"b", 3})
	require.Equal(t, 1, s.Get("a").(*declared).Value)
	require.Equal(t, 3, s.Get("b").(*declared).Value)
	text, err := json.Marshal(s)
	require.NoError(t, err)
	require.Equal(t, `{"a":{"value":1},"one":{"port":5},"b":{"value":3}}`, string(text))
	s.Remove("a")
	require.False(t, s.Has("a"))
	require.True(t, s.Has("b"))
	require.Equal(t, 5, Of[one](s).Port)
}
