// The code of a login link stands behind #, which browsers send to nobody. It is posted, and taken out of the address. Who is logged in already is asked first.
const form = document.getElementById("login");
const code = location.hash.slice(1);
if (form && code) {
  history.replaceState(null, "", location.pathname);
  form.elements.code.value = code;
  if (!("ask" in form.dataset)) form.requestSubmit();
}
