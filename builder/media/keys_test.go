package media

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/pcr"
	"spore/builder/secureboot"
	"spore/builder/uki"
	"spore/builder/uki/ukitest"
	"spore/pki/authenticode"
)

func TestWhatMachinesStartIsSigned(t *testing.T) {
	o := uki.Options{Stub: ukitest.Program(0, ".text"), Kernel: uki.Bytes(ukitest.Program(0, ".text")), Initrd: uki.Bytes("initrd"), Cmdline: "ro", Uname: "6.12"}
	loader := ukitest.Program(0, ".text")

	plain, err := Keys{}.uki(o)
	require.NoError(t, err)
	want, err := uki.Build(o)
	require.NoError(t, err)
	require.Equal(t, want, plain, "without keys nothing changes")
	same, err := Keys{}.loader(loader)
	require.NoError(t, err)
	require.Equal(t, loader, same)

	boot, err := secureboot.Generate(rand.Reader, secureboot.Options{Name: "plant", Now: time.Unix(1_800_000_000, 0)})
	require.NoError(t, err)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	signer, err := pcr.NewSigner(key)
	require.NoError(t, err)
	_, err = Keys{PCR: signer}.uki(o)
	require.ErrorContains(t, err, "a key for PCR 11 needs a key for Secure Boot")
	k := Keys{Boot: boot.DB, PCR: signer}
	signed, err := k.uki(o)
	require.NoError(t, err)
	again, err := k.uki(o)
	require.NoError(t, err)
	require.Equal(t, signed, again)
	c, err := authenticode.Certificate(signed)
	require.NoError(t, err)
	require.True(t, c.Equal(boot.DB.Certificate))
	list, err := pcr.ReadSignatures(bytes.NewReader(signed))
	require.NoError(t, err)
	require.Len(t, list, 1, "the signature of PCR 11 is inside the one for Secure Boot")
	v, err := pcr.Predict(bytes.NewReader(signed))
	require.NoError(t, err)
	public, err := signer.PublicKey()
	require.NoError(t, err)
	require.NoError(t, pcr.Check(list, v, public))

	loader, err = k.loader(loader)
	require.NoError(t, err)
	c, err = authenticode.Certificate(loader)
	require.NoError(t, err)
	require.True(t, c.Equal(boot.DB.Certificate))
	_, err = k.loader([]byte("no program"))
	require.ErrorContains(t, err, "boot loader: sign for Secure Boot: not a PE file")
}
