package pipeline

import (
	"context"
	"fmt"
	"slices"

	"spore/builder/packs"
	"spore/builder/payload"
	"spore/builder/recipe"
	"spore/builder/source"
	"spore/services/service"
)

// binaries are the programs that are not Debian packages.
type binaries struct {
	agent, stage1 payload.Program
	// payloads are the programs that the enabled services need: those of payloads, and ours that not every image has; and
	// those of the user's own.
	payloads []payload.Program
	// contained are programs inside container images.
	contained []payload.Program
}

// compilePrograms makes what the store does not have.
func (b *build) compilePrograms(ctx context.Context) error {
	step := b.Progress.Step("programs")
	how := compiling{step: step, terminal: b.Progress.Terminal(), plan: func() (binaries, error) {
		o, err := b.payloadOptions()
		if err != nil {
			return binaries{}, err
		}
		o.Plan = true
		return b.makePrograms(ctx, o)
	}}
	o, err := b.payloadOptions()
	if err != nil {
		return err
	}
	o.Report = how.report
	if b.binaries, err = b.makePrograms(ctx, o); err != nil {
		return err
	}
	cached := 0
	for _, p := range append(slices.Clone(b.binaries.payloads), b.binaries.agent, b.binaries.stage1) {
		if p.Cached {
			cached++
		}
	}
	step.Note("%d new, %d from the cache", 2+len(b.binaries.payloads)-cached, cached)
	step.Done()
	return nil
}

// payloadOptions say how programs are made.
func (b *build) payloadOptions() (payload.Options, error) {
	o := payload.Options{Env: b.Env, Hashes: b.Hashes, Folder: b.Folder, Transport: b.Transport}
	if len(b.Config.Programs) == 0 {
		return o, nil
	}
	var err error
	o.Toolchain, err = payload.Toolchain(source.Payload(b.Source, toolchainPayload))
	return o, err
}

// toolchainPayload is a payload that every source tree has; the toolchain of its go.mod is that of all.
const toolchainPayload = pausePayload

// makePrograms makes the programs, or says of them what there is to say before (payload.Options.Plan).
func (b *build) makePrograms(ctx context.Context, o payload.Options) (out binaries, err error) {
	if out.agent, err = payload.BuildOwn(ctx, b.Store, b.Source, "agent", "spore-agent", o); err != nil {
		return out, err
	}
	if out.stage1, err = payload.BuildOwn(ctx, b.Store, b.Source, "agent/stage1", "init", o); err != nil {
		return out, err
	}
	out.stage1.Target = "initramfs:/init"
	for _, name := range b.ownNames() {
		p, err := payload.BuildOwn(ctx, b.Store, b.Source, "agent/"+name, name, o)
		if err != nil {
			return out, err
		}
		p.Payload = name
		out.payloads = append(out.payloads, p)
	}
	for _, name := range b.payloadNames() {
		list, err := payload.Build(ctx, b.Store, source.Payload(b.Source, name), o)
		if err != nil {
			return out, err
		}
		out.payloads = append(out.payloads, list...)
	}
	for _, e := range b.Config.Programs {
		list, err := payload.BuildConfigured(ctx, b.Store, e, o)
		if err != nil {
			return out, err
		}
		out.payloads = append(out.payloads, list...)
	}
	return out, nil
}

// payloadNames are the payloads of the enabled programs, each once, in the order of the programs.
func (b *build) payloadNames() []string {
	return b.namesOf(func(p service.Program) []string { return p.Payloads })
}

// ownNames are our own programs that the enabled programs need, in the same way.
func (b *build) ownNames() []string {
	return b.namesOf(func(p service.Program) []string { return p.Own })
}

func (b *build) namesOf(what func(service.Program) []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, p := range b.programs {
		for _, name := range what(p) {
			if !seen[name] {
				seen[name] = true
				out = append(out, name)
			}
		}
	}
	return out
}

// packPrograms compresses the programs of the root, once for each of their builds. The caller closes what it gets.
func (b *build) packPrograms() (map[string]*packs.Content, error) {
	out := map[string]*packs.Content{}
	for _, p := range append(slices.Clone(b.binaries.payloads), b.binaries.agent) {
		c, err := packs.EnsureContent(b.Store, p.Key, p.Content())
		if err != nil {
			closeContents(out)
			return nil, fmt.Errorf("compress program %s: %w", p.Name, err)
		}
		out[p.Name] = c
	}
	return out, nil
}

func closeContents(list map[string]*packs.Content) {
	for _, c := range list {
		c.Close()
	}
}

// recipePayloads lays every payload's programs out where it says.
func (b *build) recipePayloads(contents map[string]*packs.Content) []recipe.Payload {
	var out []recipe.Payload
	for _, p := range b.binaries.payloads {
		file := recipe.PayloadFile{
			Path: p.Target, Mode: p.Mode, Content: contents[p.Name].Content, Links: p.Links, Interpreter: p.Interpreter, Libraries: p.Libraries,
		}
		out = append(out, recipe.Payload{Name: p.Payload, Configured: p.Configured, Files: []recipe.PayloadFile{file}})
	}
	return out
}

// readProgram reads a compiled program from the store.
func (b *build) readProgram(p payload.Program) ([]byte, error) {
	data, err := b.Store.ReadAll(p.Key)
	if err != nil {
		return nil, fmt.Errorf("read program %s: %w", p.Name, err)
	}
	return data, nil
}
