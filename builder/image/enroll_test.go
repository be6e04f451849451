package image

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func enrolment(mode string) *Enrolment {
	return &Enrolment{Mode: mode, Keys: map[string][]byte{"PK": []byte("pk"), "KEK": []byte("kek"), "db": []byte("db")}}
}

func TestAnEnrolmentIsReadAsItWasWritten(t *testing.T) {
	for _, mode := range EnrolModes {
		o := Options{UKI: []byte("uki"), SystemdBoot: []byte("loader"), Enroll: enrolment(mode), Node: "edge-01"}
		files := o.espFiles()
		require.Equal(t, "timeout 0\neditor no\nsecure-boot-enroll "+mode+"\n", string(files[loaderPath]))
		require.Equal(t, "kek", string(files["/loader/keys/auto/KEK.auth"]))
		n := len(files)
		got, err := readEnrolment(files[loaderPath], files)
		require.NoError(t, err)
		require.Equal(t, o.Enroll, got)
		require.Len(t, files, n-3)
	}
}

func TestWithoutAnEnrolmentTheFirmwareIsLeftAlone(t *testing.T) {
	o := Options{UKI: []byte("uki"), SystemdBoot: []byte("loader")}
	files := o.espFiles()
	require.NotContains(t, string(files[loaderPath]), "enroll")
	require.Len(t, files, 4)
	got, err := readEnrolment(files[loaderPath], files)
	require.NoError(t, err)
	require.Nil(t, got)
}

func TestEnrolmentsThatAreRefused(t *testing.T) {
	require.NoError(t, (*Enrolment)(nil).Check())
	require.NoError(t, enrolment("force").Check())
	require.ErrorContains(t, enrolment("always").Check(), "use off, manual, if-safe, force")
	part := enrolment("force")
	delete(part.Keys, "db")
	require.ErrorContains(t, part.Check(), "db is not among them")
	_, err := readEnrolment([]byte("secure-boot-enroll force\n"), map[string][]byte{keyPath("PK"): {1}})
	require.Error(t, err)
	_, err = readEnrolment([]byte("secure-boot-enroll sometimes\n"), part.files())
	require.Error(t, err)
}
