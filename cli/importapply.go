package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	"berth/app/exit"
	"berth/cli/screen"
	"berth/client"
	"berth/files/bundle"
)

// carryOut imports what is new. One that fails leaves the others alone.
func (p *importPlan) carryOut(ctx context.Context) error {
	failed := 0
	for _, it := range p.items {
		v := &it.view
		var err error
		switch v.State {
		case importNew:
			v.ID, err = p.bring(ctx, it)
			v.State = importImported
			if len(v.Next) > 1 && v.ID != "" {
				v.Next[1] = "berth start " + v.ID
			}
		case importThere:
			err = p.mend(ctx, it)
		case importRefused:
			if p.only != nil {
				failed++
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed++
			v.State, v.Reason = importFailed, err.Error()
			v.Next = nil
		}
	}
	if failed > 0 {
		return exit.NewProblem(exit.Failure, fmt.Errorf("%d of %d programs were not imported", failed, len(p.items)),
			"Hint: the same command again imports what is not there yet.")
	}
	return nil
}

// bring uploads a program without starting it, sets its variables, and starts it if that is
// wanted. If its variables cannot be set, the application is removed again: it never ran.
func (p *importPlan) bring(ctx context.Context, it *importItem) (string, error) {
	z, err := it.pack(ctx)
	if err != nil {
		return "", err
	}
	defer z.close()
	show := newProgress(p.caller, false)
	show.note(fmt.Sprintf("%s: sending %s", screen.Word(it.view.Name), bundle.SizeText(z.size)))
	done, err := p.way.Deploy(ctx, client.Upload{
		Name: z.name, Size: z.size, Open: z.open, Stopped: true,
		Sent: func(n int64) { show.sent(n, z.size) }, Each: func(s client.Progress) error { show.step(s); return nil },
	})
	show.end()
	if err != nil {
		return done.ID, err
	}
	a := client.App{ID: done.ID, Name: it.view.Name}
	if err := p.set(ctx, it, a); err != nil {
		if _, gone := p.way.Delete(context.WithoutCancel(ctx), a); gone != nil {
			return a.ID, fmt.Errorf("%w; the application is there without its variables, and offline: berth delete %s", err, a.ID)
		}
		return "", err
	}
	return a.ID, p.launch(ctx, a)
}

// launch starts an application that was imported, if that is wanted, and else sees to it that
// it is offline: a server of another kind has started it.
func (p *importPlan) launch(ctx context.Context, a client.App) error {
	if p.starts {
		o, err := p.way.Start(ctx, a)
		if client.StatusOf(err) == http.StatusOK { // it runs
			err = nil
		}
		if err == nil && o.AppStatus != nil && !o.AppStatus.Online {
			err = fmt.Errorf("it is there, and did not come online: berth logs %s says why", a.ID)
		}
		return err
	}
	all, err := p.way.Apps(ctx)
	if err != nil {
		return err
	}
	now, err := client.Choose(all, a.ID)
	if err != nil || !now.Online {
		return err
	}
	_, err = p.way.Stop(ctx, now)
	return errors.Join(errors.New("the server started it, which an import must not do: it was stopped at once; its old program may have been running too"), err)
}

// set sets the variables, all or none.
func (p *importPlan) set(ctx context.Context, it *importItem, a client.App) error {
	if len(it.Variables) == 0 {
		return nil
	}
	change := map[string]*string{}
	for _, v := range it.Variables {
		change[v.Name] = &v.Value
	}
	if _, err := p.way.ChangeVariables(ctx, a, change); err != nil {
		return fmt.Errorf("cannot set its variables: %w", err)
	}
	return nil
}

// mend sets the variables of an application that an earlier import was interrupted at: it is
// offline, and has none. Everything else that is there stays as it is.
func (p *importPlan) mend(ctx context.Context, it *importItem) error {
	all, err := p.way.Apps(ctx)
	if err != nil || len(it.Variables) == 0 {
		return err
	}
	a, err := client.Choose(all, it.view.ID)
	if err != nil || a.Online {
		return err
	}
	old, err := p.way.Variables(ctx, a)
	if err != nil || len(old) > 0 {
		return err
	}
	if err := p.set(ctx, it, a); err != nil {
		return err
	}
	it.view.Notes = append(it.view.Notes, "It was there without variables and offline: they are set now.")
	return nil
}

// pack makes the ZIP that is sent. What generates its discloud.config stays out of the
// directory.
func (it *importItem) pack(ctx context.Context) (*zipFile, error) {
	if it.ZIP != "" {
		z, _, err := openZIP("import", it.ZIP)
		return z, err
	}
	root, err := it.openRoot(it.Dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", it.Dir, err)
	}
	defer func() { _ = root.Close() }()
	choice := bundle.Choice{Env: bundle.EnvLeft, Config: it.config}
	if it.named != nil {
		choice.Config = it.named
	}
	files, err := bundle.Scan(root, choice)
	if err != nil {
		return nil, err
	}
	z := &zipFile{name: filepath.Base(it.Dir) + ".zip", dir: it.Dir}
	return z, z.fill(ctx, files)
}
