/* Search in pages that are opened as files: browsers refuse a Worker there, so
   its script runs in a hidden frame, with the interface of a Worker. */
class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    this.window = this.frame.contentWindow;
    this.heard = (event) => {
      if (event.source !== this.window) return;
      const copy = new MessageEvent("message", {data: event.data});
      this.dispatchEvent(copy);
      this.onmessage?.(copy);
    };
    window.addEventListener("message", this.heard);
    this.ready = new Promise((resolve) => {
      this.window.started = resolve;
    });
    const inside = this.window.document;
    inside.open();
    inside.write(
      "<script>postMessage = (data) => parent.postMessage(data, '*');" +
        "importScripts = (...urls) => urls.reduce((before, url) =>" +
        " before.then(() => new Promise((resolve) => {" +
        "  const script = document.createElement('script');" +
        "  script.src = url; script.onload = resolve;" +
        "  document.body.append(script); })), Promise.resolve());</script>" +
        '<script src="' + url + '" onload="started()"></script>');
    inside.close();
  }
  postMessage(data) {
    this.ready.then(() =>
      this.window.dispatchEvent(new MessageEvent("message", {data})));
  }
  terminate() {
    window.removeEventListener("message", this.heard);
    this.frame.remove();
  }
}
if (location.protocol === "file:") window.Worker = FrameWorker;
