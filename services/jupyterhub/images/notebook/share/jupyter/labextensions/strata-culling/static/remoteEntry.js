// A notification before the hub stops the server, one afterwards, one when its token of the batch system cannot be
// renewed, and one while the home is full. It is a container of module federation, as JupyterLab loads prebuilt extensions, in plain JavaScript: nothing
// is compiled.
(() => {
  'use strict';

  const NAME = 'strata-culling';
  const PATH = 'strata/api/culling';
  const SECOND = 1000;
  const LONGEST_PAUSE = 300; // seconds between two polls; 15 while the warning is shown
  const WARNING_PAUSE = 15;
  const REPORT_PAUSE = 60; // seconds between two reports of activity
  const INPUT = ['keydown', 'pointerdown', 'wheel'];
  const STOPPED = [424, 503]; // from the hub: no such server; from the proxy: it does not respond

  let shared;

  async function packageOf(name) {
    const versions = Object.values(shared[name]);
    const chosen = versions.find(version => version.loaded) ?? versions[0];
    return (await chosen.get())();
  }

  const clock = time => time.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });

  function duration(seconds) {
    if (seconds % 3600 === 0) return `${seconds / 3600} h`;
    return seconds % 60 === 0 ? `${seconds / 60} min` : `${seconds} s`;
  }

  function why(stop) {
    return stop.reason === 'idle' ? `after ${duration(stop.limit)} without activity` : `${duration(stop.limit)} after its start`;
  }

  function activate(app, Notification, ServerConnection) {
    const settings = app.serviceManager.serverSettings;
    const url = settings.baseUrl.replace(/\/*$/, '/') + PATH;
    let stop; // the hub's last answer, with the time of the stop
    let notification, shown, prefix, timer;
    let reported = 0;
    let over = false;
    const token = lasting(); // the notification about the token
    const home = lasting(); // and about a home that is full

    function warn() {
      const text = `Your server stops at ${clock(stop.at)}, ${why(stop)}. Files in your home stay.`;
      const message = stop.reason === 'idle' ? text : `${text} Save your work: the time cannot be extended.`;
      const actions = stop.reason === 'idle' ? [{ label: 'Keep it running', displayType: 'accent', callback: keep }] : [];
      show(message, actions, `(stops ${clock(stop.at)}) `);
    }

    function show(message, actions, title) {
      if (message === shown) return; // its user may have closed it
      clear();
      notification = Notification.emit(message, 'warning', { actions, autoClose: false });
      shown = message;
      mark(title);
    }

    // returns a function that shows a text until it gets another, and returns whether it is shown
    function lasting() {
      let shownText, id;
      return (text, actions = []) => {
        if (text === shownText) return text !== undefined;
        if (id !== undefined) Notification.dismiss(id);
        id = undefined;
        shownText = text;
        // earlier ones are listed, but not shown
        if (text !== undefined) {
          void app.restored.then(() => {
            if (text === shownText) id = Notification.emit(text, 'warning', { actions, autoClose: false });
          });
        }
        return text !== undefined;
      };
    }

    function tellToken(batch, page) {
      let text;
      if (batch) {
        const valid = batch.expires * SECOND > Date.now();
        const end = valid ? `Batch jobs can be submitted until ${clock(new Date(batch.expires * SECOND))}` : 'Batch jobs cannot be submitted';
        text = batch.login ? `Your login has ended. ${end}. Your server goes on.` : `${end}: ${batch.problem}`;
      }
      const login = { label: 'Log in again', displayType: 'accent', callback: () => window.open(page, '_blank', 'noopener') };
      return token(text, batch?.login ? [login] : []);
    }

    function clear() {
      if (shown !== undefined) Notification.dismiss(notification);
      shown = undefined;
      mark('');
    }

    // an idle page is mostly one in the background: its tab shows the time
    function mark(title) {
      const previous = prefix;
      prefix = title;
      if (previous && document.title.startsWith(previous)) document.title = document.title.slice(previous.length);
      restore();
    }

    // JupyterLab writes the title again when its panels change
    function restore() {
      if (prefix && !document.title.startsWith(prefix)) document.title = prefix + document.title;
    }

    async function request(method) {
      let pause = REPORT_PAUSE;
      try {
        const response = await ServerConnection.makeRequest(url, { method, headers: { Accept: 'application/json' } }, settings);
        if (response.status === 404) return; // this hub stops no servers
        if (response.ok) {
          pause = answered(await response.json());
        } else if (STOPPED.includes(response.status)) {
          pause = failed();
        }
      } catch {
        pause = failed();
      }
      clearTimeout(timer); // of another request in the meantime
      timer = setTimeout(() => request('GET'), pause * SECOND);
    }

    // returns the seconds until the next poll
    function answered(answer) {
      stop = { ...answer, at: new Date(Date.now() + answer.seconds * SECOND) };
      over = false;
      const urgent = [tellToken(stop.batch, stop.home), home(stop.full ?? undefined)];
      const longest = urgent.includes(true) ? WARNING_PAUSE : LONGEST_PAUSE;
      if (stop.seconds > stop.warning) {
        clear();
        return Math.min(stop.seconds - stop.warning, longest) + 1;
      }
      warn();
      return Math.max(1, Math.min(stop.seconds, WARNING_PAUSE));
    }

    function failed() {
      // before its time it is a network or a proxy that is down, which JupyterLab itself reports
      if (stop === undefined || Date.now() < stop.at.getTime()) return WARNING_PAUSE;
      if (!over) {
        const restart = { label: 'Start it again', displayType: 'accent', callback: () => app.commands.execute('hub:restart') };
        show(`Your server was stopped at ${clock(stop.at)}, ${why(stop)}. Files in your home stay.`, [restart], '(stopped) ');
        over = true;
      }
      return LONGEST_PAUSE;
    }

    function keep() {
      reported = Date.now();
      void request('POST');
    }

    function onInput(event) {
      if (!event.isTrusted || over) return;
      if (Date.now() - reported > REPORT_PAUSE * SECOND) keep();
    }

    new MutationObserver(restore).observe(document.head, { subtree: true, childList: true, characterData: true });
    for (const kind of INPUT) document.addEventListener(kind, onInput, { capture: true, passive: true });
    keep(); // who opens the page is there
  }

  async function extension() {
    const [{ Notification }, { ServerConnection }] = await Promise.all(['@jupyterlab/apputils', '@jupyterlab/services'].map(packageOf));
    const plugin = {
      id: `${NAME}:plugin`,
      description: 'Warns before the hub stops the server.',
      autoStart: true,
      activate: app => activate(app, Notification, ServerConnection)
    };
    return () => ({ __esModule: true, default: plugin });
  }

  window._JUPYTERLAB = window._JUPYTERLAB ?? {};
  window._JUPYTERLAB[NAME] = {
    init: scope => {
      shared = scope;
    },
    get: extension
  };
})();
