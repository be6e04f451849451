package node

import (
	"context"
	"os"
	"time"

	"spore/agent/wait"
)

// HasTPM asks systemd whether all is there that sealing to a TPM takes.
func (m *Machine) HasTPM(ctx context.Context) bool {
	m.AwaitTPM(ctx)
	if _, err := os.Stat(m.Root.At("/dev/tpmrm0")); err != nil {
		return false
	}
	_, err := Creds(ctx, nil, "has-tpm2", "--quiet")
	if err != nil {
		m.Say("the TPM cannot be used: " + err.Error())
	}
	return err == nil
}

// AwaitTPM waits for the device of a TPM that the firmware announces by its ACPI table.
func (m *Machine) AwaitTPM(ctx context.Context) {
	if _, err := os.Stat(m.Root.At("/sys/firmware/acpi/tables/TPM2")); err != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := wait.Until(ctx, wait.Condition{
		For: "the TPM", Bound: tpmBound, Say: m.Say, Changes: wait.Dir(ctx, m.Root.At("/dev")),
		Met: func() bool { _, err := os.Stat(m.Root.At("/dev/tpmrm0")); return err == nil },
	})
	if err != nil {
		m.Say(err.Error())
	}
}

// tpmBound is the longest wait for the device of a TPM that the firmware announces.
const tpmBound = 10 * time.Second
